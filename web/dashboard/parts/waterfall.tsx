import type { JSX } from "preact";
import type { RequestView } from "../../../src/api/management/request-routes.ts";
import { shortTime } from "../../shared/format.ts";
import { stretchesOf } from "../request-words.ts";

export const stretchWords = {
  held: "held while its slot loaded",
  queued: "in the queue",
  prompt: "until the first token",
  answer: "answering",
} as const;

/** A bar of the parts of a request's time, as long as its time against the slowest one's. */
export function Waterfall({
  request,
  slowest,
}: {
  readonly request: RequestView;
  readonly slowest: number;
}): JSX.Element {
  const all = stretchesOf(request);
  const says = all.map(({ name, ms }) => `${shortTime(ms)} ${stretchWords[name]}`).join(", ");
  let at = 0;
  return (
    <svg class="waterfall" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label={says}>
      <title>{says}</title>
      {all.map(({ name, ms }) => {
        const x = at;
        const width = Math.max(2, (1000 * ms) / slowest);
        at += width;
        return <rect key={name} class={name} x={x} y={0} width={width} height={10} />;
      })}
    </svg>
  );
}
