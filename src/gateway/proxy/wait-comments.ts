import { steadyNow } from "../../lib/steady-clock.ts";
import type { WaitReport } from "../slots/wait-report.ts";
import type { Answer } from "../relay/answer.ts";

export interface CommentTimes {
  /** Milliseconds before the first comment, so that an early failure keeps its status. */
  readonly firstMs: number;
  /** Milliseconds between two comments. */
  readonly everyMs: number;
}

/** CONTRACT "Cold slots". */
export const defaultCommentTimes: CommentTimes = { firstMs: 5000, everyMs: 10_000 };

/** Sends comments to a client that waits for its stream, so that neither it nor a proxy times out. */
export class WaitComments implements Disposable {
  readonly #answer: Answer;
  readonly #since = steadyNow();
  readonly #everyMs: number;
  /** Undefined: it does not wait now, but may wait again where an engine cannot be reached. */
  #report: (() => WaitReport) | undefined;
  #timer: NodeJS.Timeout;

  constructor(answer: Answer, { firstMs, everyMs }: CommentTimes) {
    this.#answer = answer;
    this.#everyMs = everyMs;
    this.#timer = setTimeout(() => this.#sendComment(), firstMs);
  }

  /** The client waits until the result is disposed. */
  during(report: () => WaitReport): Disposable {
    this.#report = report;
    return {
      [Symbol.dispose]: () => {
        if (this.#report === report) this.#report = undefined;
      },
    };
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #sendComment(): void {
    if (this.#answer.isAnswered || this.#answer.isOver) return;
    const report = this.#report?.();
    if (report !== undefined) {
      this.#answer.beginEarly();
      this.#answer.comment(`waiting ${describe(report, steadyNow() - this.#since)}`);
    }
    this.#timer = setTimeout(() => this.#sendComment(), this.#everyMs);
  }
}

function describe({ at, name, state, position, progress, doing }: WaitReport, waitedMs: number): string {
  const words = [`${at}=${name}`, `state=${state}`];
  if (progress !== undefined) words.push(`progress=${progress}%`);
  if (position > 0) words.push(`position=${position}`);
  if (doing !== undefined) words.push(`doing="${doing}"`);
  words.push(`waited=${Math.round(waitedMs / 1000)}s`);
  return words.join(" ");
}
