import type { TrafficView } from "../../api/management/traffic-view.ts";
import type { Admission } from "../slots/admission.ts";
import type { Traffic } from "../slots/traffic.ts";
import type { RecentRequests } from "./recent-requests.ts";

/** The counters of a slot since the start of the gateway. */
export interface SlotTotals {
  requests: number;
  /** Those with a status of 400 and above, without 499. */
  errors: number;
  tokensIn: number;
  tokensOut: number;
}

interface TrafficReaders {
  readonly metrics: { totals(): ReadonlyMap<string, SlotTotals> };
  readonly traffic: Pick<Traffic, "inFlight">;
  readonly admission: Pick<Admission, "counts">;
  readonly recent: Pick<RecentRequests, "list">;
}

const stepSeconds = 5;
/** Fifteen minutes. */
const keptSteps = 180;
/** Limit of slots and providers that are counted by name. Each takes about 30 KB once every step has traffic. */
const mostSeries = 100;
/** The sum of any further slots. No slot can have that name. */
const otherSlots = "other slots";
/** More requests of one step are not asked for their first token. */
const mostRecent = 500;

interface Step extends SlotTotals {
  inFlight: number;
  waiting: number;
  firstToken: TrafficView["series"][number]["first_token_ms"][number];
}

const nothing: SlotTotals = { requests: 0, errors: 0, tokensIn: 0, tokensOut: 0 };
const empty: Step = { ...nothing, inFlight: 0, waiting: 0, firstToken: null };

/**
 * The last fifteen minutes of each slot and provider, for pages that are opened now. It reads the counters of the metrics
 * every five seconds, so that a request costs nothing more; a slot without traffic in that time takes no memory.
 */
export class TrafficHistory implements Disposable {
  readonly #readers: TrafficReaders;
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout;
  /** Steps with traffic, by their number since the start. */
  readonly #slots = new Map<string, Map<number, Step>>();
  #before: ReadonlyMap<string, SlotTotals> = new Map();
  #count = 0;
  #endedAt: number;

  /** `now`: milliseconds of the wall clock. */
  constructor(readers: TrafficReaders, now: () => number = Date.now) {
    this.#readers = readers;
    this.#now = now;
    this.#endedAt = now();
    this.#timer = setInterval(() => this.step(), stepSeconds * 1000).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  /** Ends the present step. */
  step(): void {
    const { metrics, traffic, admission } = this.#readers;
    const totals = metrics.totals();
    const began = this.#endedAt;
    this.#endedAt = this.#now();
    const nth = this.#count;
    this.#count += 1;
    const differences = [...totals].map(([slot, now]) => [slot, since(now, this.#before.get(slot))] as const);
    this.#before = totals;
    const requests = differences.reduce((sum, [, { requests: count }]) => sum + count, 0);
    const firstTokens = requests === 0 ? new Map<string, number[]>() : this.#firstTokens(requests, began);
    for (const [slot, difference] of differences) {
      const { queued, held } = admission.counts(slot);
      const [inFlight, waiting] = [traffic.inFlight(slot), queued + held];
      const isQuiet = difference.requests + difference.tokensIn + difference.tokensOut + inFlight + waiting === 0;
      if (isQuiet) continue;
      const step = { ...difference, inFlight, waiting, firstToken: percentiles(firstTokens.get(slot)) };
      if (this.#slots.has(slot) || this.#slots.size < mostSeries) this.#put(slot, nth, step);
      else this.#put(otherSlots, nth, sumOf(this.#slots.get(otherSlots)?.get(nth) ?? empty, step));
    }
    for (const [slot, steps] of this.#slots) {
      steps.delete(nth - keptSteps);
      if (steps.size === 0) this.#slots.delete(slot);
    }
  }

  /** The number of ended steps. */
  get count(): number {
    return this.#count;
  }

  view(minutes: number): TrafficView {
    return this.#view(Math.ceil((minutes * 60) / stepSeconds));
  }

  /** The last step alone. */
  last(): TrafficView {
    return this.#view(1);
  }

  #view(most: number): TrafficView {
    const steps = Math.min(this.#count, keptSteps, most);
    const first = this.#count - steps;
    const series = [...this.#slots].flatMap(([slot, known]) => {
      const all = Array.from({ length: steps }, (_, at) => known.get(first + at) ?? empty);
      if (all.every((step) => step === empty)) return [];
      return [
        {
          slot,
          requests: all.map((step) => step.requests),
          errors: all.map((step) => step.errors),
          tokens_in: all.map((step) => step.tokensIn),
          tokens_out: all.map((step) => step.tokensOut),
          in_flight: all.map((step) => step.inFlight),
          waiting: all.map((step) => step.waiting),
          first_token_ms: all.map((step) => step.firstToken),
        },
      ];
    });
    return { step_seconds: stepSeconds, ended_at: new Date(this.#endedAt).toISOString(), steps, series };
  }

  #put(slot: string, nth: number, step: Step): void {
    let steps = this.#slots.get(slot);
    if (steps === undefined) this.#slots.set(slot, (steps = new Map()));
    steps.set(nth, step);
  }

  /** Milliseconds until the first token of the streams that have ended since `began`, by slot. */
  #firstTokens(requests: number, began: number): Map<string, number[]> {
    const times = new Map<string, number[]>();
    for (const { endedAt, slot, firstTokenMs } of this.#readers.recent.list(Math.min(requests, mostRecent))) {
      if (endedAt < began || firstTokenMs === 0) continue;
      const own = times.get(slot);
      if (own === undefined) times.set(slot, [firstTokenMs]);
      else own.push(firstTokenMs);
    }
    return times;
  }
}

/** Percentiles have no sum. */
function sumOf(one: Step, other: Step): Step {
  return {
    requests: one.requests + other.requests,
    errors: one.errors + other.errors,
    tokensIn: one.tokensIn + other.tokensIn,
    tokensOut: one.tokensOut + other.tokensOut,
    inFlight: one.inFlight + other.inFlight,
    waiting: one.waiting + other.waiting,
    firstToken: null,
  };
}

/** A counter that has become smaller belongs to a slot of that name that was made anew. */
function since(now: SlotTotals, before: SlotTotals = nothing): SlotTotals {
  const from = now.requests < before.requests || now.tokensOut < before.tokensOut ? nothing : before;
  return {
    requests: now.requests - from.requests,
    errors: now.errors - from.errors,
    tokensIn: now.tokensIn - from.tokensIn,
    tokensOut: now.tokensOut - from.tokensOut,
  };
}

function percentiles(times: readonly number[] = []): Step["firstToken"] {
  const sorted = times.toSorted((one, other) => one - other);
  const at = (share: number): number => Math.round(sorted[Math.ceil(share * sorted.length) - 1] ?? 0);
  return sorted.length === 0 ? null : { p50: at(0.5), p95: at(0.95), count: sorted.length };
}
