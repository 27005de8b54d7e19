import type { JSX } from "preact";
import type { SlotDetail } from "../../../src/api/management/views.ts";
import type { Tone } from "../../../src/api/state-words.ts";
import { now as clock } from "../../shared/clock.ts";
import { time } from "../../shared/format.ts";
import { SlotEvents, transitionWords } from "./slot-events.tsx";

const spanMs = 3_600_000;
/** Parts of the hour between two times of the axis. */
const parts = 4;

interface Stretch {
  readonly from: number;
  readonly to: number;
  readonly tone: Tone;
  readonly word: string;
  readonly says: string;
}

/** The states of the last hour as a band, the newest at the right, with its times, its words and the reason of each change. */
export function StateBand({ slot }: { readonly slot: SlotDetail }): JSX.Element {
  const now = clock();
  const all = stretchesOf(slot, now);
  const x = (at: number): number => (1000 * (at - (now - spanMs))) / spanMs;
  const changes = slot.transitions.filter(({ at }) => Date.parse(at) >= now - spanMs);
  const words = new Map(all.map(({ word, tone }) => [word, tone]));
  return (
    <>
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
      <p class="band-times quiet number" aria-hidden="true">
        {Array.from({ length: parts }, (_, nth) => (
          <span key={nth}>{minutes(now - spanMs + (nth * spanMs) / parts)}</span>
        ))}
        <span>now</span>
      </p>
      {words.size > 0 && (
        <ul class="legend" aria-label="States">
          {[...words].map(([word, tone]) => (
            <li key={word}>
              <span class={`swatch of-state ${tone}`} aria-hidden="true" />
              {word}
            </li>
          ))}
        </ul>
      )}
      {changes.length > 0 && (
        <details>
          <summary>{changes.length === 1 ? "1 change" : `${changes.length} changes`}, and why</summary>
          <SlotEvents slot={{ transitions: changes }} />
        </details>
      )}
    </>
  );
}

function minutes(at: number): string {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

/** States between two transitions; those before the first known one are not drawn. */
function stretchesOf({ transitions }: SlotDetail, now: number): readonly Stretch[] {
  return transitions.flatMap((transition, nth) => {
    const { at, message } = transition;
    const end = transitions[nth + 1]?.at;
    const [from, until] = [Math.max(Date.parse(at), now - spanMs), end === undefined ? now : Date.parse(end)];
    if (until < now - spanMs) return [];
    const { tone, text } = transitionWords(transition);
    return [{ from, to: until, tone, word: text, says: `${time(at)} ${text}: ${message}` }];
  });
}
