import { steadyNow } from "../lib/steady-clock.ts";
import type { Place } from "./admission/admission.ts";
import type { Answer } from "./relay/answer.ts";

export interface HoldTimes {
  /** Milliseconds of silence first, so that an early failure keeps its status. */
  readonly silenceMs: number;
  /** Milliseconds between two comments. */
  readonly everyMs: number;
}

/** CONTRACT "Cold slots". */
export const defaultHoldTimes: HoldTimes = { silenceMs: 5000, everyMs: 10_000 };

/** Who waits, and where. */
export interface Waiter {
  readonly isWaiting: boolean;
  readonly place: Place;
}

/** Keeps a client that waits for its stream informed, so that neither it nor a proxy gives up. */
export class StreamHold {
  readonly #answer: Answer;
  readonly waiter: Waiter;
  readonly #since = steadyNow();
  readonly #everyMs: number;
  #timer: NodeJS.Timeout;

  constructor(answer: Answer, waiter: Waiter, { silenceMs, everyMs }: HoldTimes) {
    this.#answer = answer;
    this.waiter = waiter;
    this.#everyMs = everyMs;
    this.#timer = setTimeout(() => this.#tell(), silenceMs);
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #tell(): void {
    // An engine that was asked and not reached makes it wait once more.
    if (this.#answer.isAnswered || this.#answer.isOver) return;
    if (this.waiter.isWaiting) {
      this.#answer.hold();
      this.#answer.comment(`waiting ${describe(this.waiter.place, steadyNow() - this.#since)}`);
    }
    this.#timer = setTimeout(() => this.#tell(), this.#everyMs);
  }
}

function describe({ at, name, state, position, progress }: Place, waitedMs: number): string {
  const words = [`${at}=${name}`, `state=${state}`];
  if (progress !== undefined) words.push(`progress=${progress}%`);
  if (position > 0) words.push(`position=${position}`);
  words.push(`waited=${Math.round(waitedMs / 1000)}s`);
  return words.join(" ");
}
