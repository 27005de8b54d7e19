import type { JSX } from "preact";
import type { SlotDetail } from "../../../src/api/management/views.ts";
import { stateWords, type Tone } from "../../../src/api/state-words.ts";
import { time } from "../../shared/format.ts";

const spanMs = 3_600_000;

interface Stretch {
  readonly from: number;
  readonly to: number;
  readonly tone: Tone;
  readonly says: string;
}

/** The states of the last hour as a band, the newest at the right. */
export function StateBand({ slot }: { readonly slot: SlotDetail }): JSX.Element {
  const now = Date.now();
  const all = stretchesOf(slot, now);
  const x = (at: number): number => (1000 * (at - (now - spanMs))) / spanMs;
  return (
    <svg
      class="band"
      viewBox="0 0 1000 20"
      preserveAspectRatio="none"
      role="img"
      aria-label={`States of the last hour: ${all.map(({ says }) => says).join("; ")}`}
    >
      {all.map(({ from, to, tone, says }) => (
        <rect key={from} class={tone} x={x(from)} y={0} width={Math.max(2, x(to) - x(from))} height={20}>
          <title>{says}</title>
        </rect>
      ))}
    </svg>
  );
}

/** States between two transitions; what was before the first known one is not drawn. */
function stretchesOf({ transitions }: SlotDetail, now: number): readonly Stretch[] {
  return transitions.flatMap(({ at, to, message }, nth) => {
    const end = transitions[nth + 1]?.at;
    const [from, until] = [Math.max(Date.parse(at), now - spanMs), end === undefined ? now : Date.parse(end)];
    if (until < now - spanMs) return [];
    const { tone, text } = stateWords({ state: to, in_flight: 0, progress: null, conditions: [] });
    return [{ from, to: until, tone, says: `${time(at)} ${text}: ${message}` }];
  });
}
