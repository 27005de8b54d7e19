import { steadyNow } from "../../lib/steady-clock.ts";
import type { WaitPlace } from "../slots/admission.ts";
import type { Answer } from "../relay/answer.ts";

export interface HoldTimes {
  /** Milliseconds before the first comment, so that an early failure keeps its status. */
  readonly firstCommentMs: number;
  /** Milliseconds between two comments. */
  readonly everyMs: number;
}

/** CONTRACT "Cold slots". */
export const defaultHoldTimes: HoldTimes = { firstCommentMs: 5000, everyMs: 10_000 };

/** A waiting client with its place. */
export interface HeldClient {
  readonly isWaiting: boolean;
  readonly place: WaitPlace;
}

/** Sends comments to a client that waits for its stream, so that neither it nor a proxy times out. */
export class StreamHold {
  readonly #answer: Answer;
  readonly waiter: HeldClient;
  readonly #since = steadyNow();
  readonly #everyMs: number;
  #timer: NodeJS.Timeout;

  constructor(answer: Answer, waiter: HeldClient, { firstCommentMs, everyMs }: HoldTimes) {
    this.#answer = answer;
    this.waiter = waiter;
    this.#everyMs = everyMs;
    this.#timer = setTimeout(() => this.#sendComment(), firstCommentMs);
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #sendComment(): void {
    // An engine that could not be reached makes it wait once more.
    if (this.#answer.isAnswered || this.#answer.isOver) return;
    if (this.waiter.isWaiting) {
      this.#answer.hold();
      this.#answer.comment(`waiting ${describe(this.waiter.place, steadyNow() - this.#since)}`);
    }
    this.#timer = setTimeout(() => this.#sendComment(), this.#everyMs);
  }
}

function describe({ at, name, state, position, progress, doing }: WaitPlace, waitedMs: number): string {
  const words = [`${at}=${name}`, `state=${state}`];
  if (progress !== undefined) words.push(`progress=${progress}%`);
  if (position > 0) words.push(`position=${position}`);
  if (doing !== undefined) words.push(`doing="${doing}"`);
  words.push(`waited=${Math.round(waitedMs / 1000)}s`);
  return words.join(" ");
}
