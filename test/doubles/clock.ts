import type { Clock } from "../../src/operator/queue.ts";

/** A DOUBLE for time: it moves only when a test advances it, and timers run at their own time, in order. */
export class ManualClock implements Clock {
  #now: number;
  #timers: { at: number; task: () => void }[] = [];
  #setBy = 0;

  constructor(start = 0) {
    this.#now = start;
  }

  now(): Date {
    return new Date(this.#now);
  }

  /** Milliseconds that have gone by, however it was set. */
  elapsedMs(): number {
    return this.#now - this.#setBy;
  }

  /** Somebody sets it ahead, or back: no time goes by, and timers run out as they would have. */
  set(byMs: number): void {
    this.#now += byMs;
    this.#setBy += byMs;
    for (const timer of this.#timers) timer.at += byMs;
  }

  after(ms: number, task: () => void): Disposable {
    const timer = { at: this.#now + ms, task };
    this.#timers.push(timer);
    return {
      [Symbol.dispose]: () => {
        this.#timers = this.#timers.filter((other) => other !== timer);
      },
    };
  }

  advance(ms: number): void {
    const end = this.#now + ms;
    while (this.step(end));
  }

  /** Moves to the next timer that is due by `end`, and runs it; else to `end`. False at the end. */
  step(end: number): boolean {
    const [next] = this.#timers.filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at);
    this.#now = Math.max(this.#now, next?.at ?? end);
    if (next === undefined) return false;
    this.#timers = this.#timers.filter((other) => other !== next);
    next.task();
    return true;
  }
}
