import type { JSX } from "preact";
import type { RequestView } from "../../../src/api/management/request-routes.ts";
import { shortTime } from "../../shared/format.ts";
import { outcomeOf, timeOfDay } from "../request-words.ts";

const isFailed = (request: RequestView): boolean => outcomeOf(request).tone === "bad";
const failedLast = (one: RequestView, other: RequestView): number => Number(isFailed(one)) - Number(isFailed(other));

/** A bar for each request: where it ended in time, how long it took, and in its colour how it ended. */
export function RequestBars({ requests }: { readonly requests: readonly RequestView[] }): JSX.Element | null {
  if (requests.length < 2) return null;
  const times = requests.map(({ ended_at: at }) => Date.parse(at));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const slowest = Math.max(1, ...requests.map(({ ms }) => ms));
  const failed = requests.filter(isFailed).length;
  const [begin, end] = [from, to].map((time) => timeOfDay(new Date(time).toISOString()));
  const says = `${requests.length} requests from ${begin} to ${end}, the slowest in ${shortTime(slowest)}, ${failed} failed`;
  return (
    <figure class="request-bars">
      <svg viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true">
        {/* Failed ones last, before the others: they are short. */}
        {requests.toSorted(failedLast).map((request) => {
          const x = 5 + (990 * (Date.parse(request.ended_at) - from)) / Math.max(1, to - from);
          // By the logarithm: a request that was held for minutes must not flatten all others.
          const height = (96 * Math.log1p(request.ms)) / Math.log1p(slowest);
          return <line key={request.id} class={outcomeOf(request).tone} x1={x} x2={x} y1={100} y2={96 - height} />;
        })}
      </svg>
      <figcaption class="quiet number">{says}</figcaption>
    </figure>
  );
}
