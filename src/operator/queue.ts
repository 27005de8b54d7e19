import { longestTimerMs } from "../lib/longest-timer.ts";
import { steadyNow } from "../lib/steady-clock.ts";
import { backoffMs, defaultBackoff, type Backoff } from "./plan/backoff.ts";

/** The source of time; replaced by a fake in tests. */
export interface Clock {
  now(): Date;
  /** Milliseconds of a monotonic clock. */
  elapsedMs(): number;
  /** Runs `task` once after `ms`, or after 24 days where that is sooner; disposing cancels it. */
  after(ms: number, task: () => void): Disposable;
}

export const systemClock: Clock = {
  now: () => new Date(),
  elapsedMs: steadyNow,
  after(ms, task) {
    const timer = setTimeout(task, Math.min(ms, longestTimerMs));
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  },
};

/**
 * Reconciles that wait for nothing follow each other without a turn of the event loop, and a thousand of them take
 * seconds: after this long, answers that have arrived, timers and the renewal of leadership come first.
 */
const longestTurnMs = 10;

/** When the first reconcile of this turn of the event loop was begun, and whether one without an event was among them. */
interface Turn {
  readonly beganMs: number;
  hasResynced: boolean;
}

/** The result of a reconcile: nothing until an event comes, or another reconcile in `requeueMs`. */
export interface Done {
  readonly requeueMs?: number;
}

/**
 * Keys to reconcile. A key is worked on by one worker at a time; adding it meanwhile makes it run once more
 * afterwards; adding it twice before that runs it once. A reconcile that throws is retried with backoff. Of keys without
 * an event each turn of the event loop takes one: a resync of a thousand slots does not hold up a new one.
 *
 *   add ──────▶ ready ─┬─▶ running ──▶ done (nothing | delayed)
 *                 ▲    │      │ added meanwhile: dirty
 *  addResync ──▶ resyncs ─┘   │
 *                 └───────────┘
 */
export class WorkQueue {
  readonly #clock: Clock;
  readonly #backoff: Backoff;
  readonly #concurrency: number;
  readonly #work: (key: string) => Promise<Done>;
  readonly #onError: (key: string, error: unknown, retryMs: number) => void;
  /** Insertion order is the order of service; the value is the time when it became ready. */
  readonly #ready = new Map<string, number>();
  /** As `#ready`, without an event. No key is in both. */
  readonly #resyncs = new Map<string, number>();
  readonly #running = new Set<string>();
  readonly #dirty = new Map<string, number>();
  readonly #delayed = new Map<string, { at: number; timer: Disposable }>();
  readonly #failures = new Map<string, number>();
  #isStopped = false;
  #turn: Turn | undefined;
  readonly #waiters: (() => void)[] = [];
  /** Keys with a waiter, until they have been worked on. */
  readonly #awaited = new Set<Set<string>>();

  constructor(options: {
    work: (key: string) => Promise<Done>;
    onError: (key: string, error: unknown, retryMs: number) => void;
    concurrency?: number;
    clock?: Clock;
    backoff?: Backoff;
  }) {
    this.#work = options.work;
    this.#onError = options.onError;
    this.#concurrency = options.concurrency ?? 32;
    this.#clock = options.clock ?? systemClock;
    this.#backoff = options.backoff ?? defaultBackoff;
  }

  /** Reconcile soon. A delayed requeue of the same key is dropped: the reconcile decides again. */
  add(key: string): void {
    if (this.#isStopped) return;
    const now = this.#clock.elapsedMs();
    if (this.#running.has(key)) {
      if (!this.#dirty.has(key)) this.#dirty.set(key, now);
      return;
    }
    this.#undelay(key);
    const since = this.#resyncs.get(key) ?? now;
    this.#resyncs.delete(key);
    if (!this.#ready.has(key)) this.#ready.set(key, since);
    this.#pump();
  }

  /** Reconcile soon, but without an event: the keys of events do not wait for it. */
  addResync(key: string): void {
    if (this.#isStopped || this.#ready.has(key) || this.#resyncs.has(key)) return;
    if (this.#running.has(key)) {
      this.add(key);
      return;
    }
    this.#undelay(key);
    this.#resyncs.set(key, this.#clock.elapsedMs());
    this.#pump();
  }

  /** Reconcile in `ms` unless an event causes it earlier. */
  addAfter(key: string, ms: number): void {
    if (this.#isStopped) return;
    if (ms <= 0) {
      this.add(key);
      return;
    }
    const at = this.#clock.elapsedMs() + ms;
    const planned = this.#delayed.get(key);
    if (this.#ready.has(key) || this.#resyncs.has(key) || (planned !== undefined && planned.at <= at)) return;
    planned?.timer[Symbol.dispose]();
    const timer = this.#clock.after(ms, () => {
      this.#delayed.delete(key);
      this.addResync(key);
    });
    this.#delayed.set(key, { at, timer });
  }

  get depth(): number {
    return this.#ready.size + this.#resyncs.size + this.#dirty.size;
  }

  /** The waiting time of the oldest key in milliseconds; 0 without any. */
  get oldestAgeMs(): number {
    const [first] = this.#ready.values();
    const [resync] = this.#resyncs.values();
    const [dirty] = this.#dirty.values();
    const since = Math.min(first ?? Infinity, resync ?? Infinity, dirty ?? Infinity);
    return Number.isFinite(since) ? Math.max(0, this.#clock.elapsedMs() - since) : 0;
  }

  /** Resolves once nothing is ready or running; delayed keys may remain. */
  async settled(): Promise<void> {
    while (this.#ready.size > 0 || this.#resyncs.size > 0 || this.#running.size > 0) {
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  /** Resolves once each key that is ready or running now has been worked on, independent of later ones. */
  async passed(): Promise<void> {
    const keys = new Set([...this.#ready.keys(), ...this.#resyncs.keys(), ...this.#running]);
    this.#awaited.add(keys);
    while (keys.size > 0 && !this.#isStopped) {
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
    this.#awaited.delete(keys);
  }

  /** Takes no more keys and waits for the running reconciles. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const { timer } of this.#delayed.values()) timer[Symbol.dispose]();
    this.#delayed.clear();
    this.#ready.clear();
    this.#resyncs.clear();
    this.#dirty.clear();
    this.#wake();
    await this.settled();
  }

  #undelay(key: string): void {
    this.#delayed.get(key)?.timer[Symbol.dispose]();
    this.#delayed.delete(key);
  }

  #pump(): void {
    while (this.#running.size < this.#concurrency && this.#ready.size + this.#resyncs.size > 0) {
      const turn = (this.#turn ??= this.#beginTurn());
      const isResync = this.#resyncs.size > 0 && !turn.hasResynced;
      const lane = isResync ? this.#resyncs : this.#ready;
      const [key] = lane.keys();
      if (key === undefined || this.#clock.elapsedMs() - turn.beganMs >= longestTurnMs) return;
      turn.hasResynced ||= isResync;
      lane.delete(key);
      this.#running.add(key);
      void this.#run(key);
    }
  }

  /** The next turn of the event loop goes on. */
  #beginTurn(): Turn {
    setImmediate(() => {
      this.#turn = undefined;
      if (this.#ready.size > 0 || this.#resyncs.size > 0) this.#pump();
    });
    return { beganMs: this.#clock.elapsedMs(), hasResynced: false };
  }

  async #run(key: string): Promise<void> {
    let delayMs: number | undefined;
    try {
      const done = await this.#work(key);
      this.#failures.delete(key);
      delayMs = done.requeueMs;
    } catch (error) {
      const failures = (this.#failures.get(key) ?? 0) + 1;
      this.#failures.set(key, failures);
      delayMs = backoffMs(failures, this.#backoff);
      this.#onError(key, error, delayMs);
    }
    this.#running.delete(key);
    const dirtySince = this.#dirty.get(key);
    if (dirtySince !== undefined && !this.#isStopped) {
      this.#dirty.delete(key);
      this.#ready.set(key, dirtySince);
    } else if (delayMs !== undefined) {
      this.addAfter(key, delayMs);
    }
    this.#pump();
    for (const keys of this.#awaited) keys.delete(key);
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#waiters.splice(0)) wake();
  }
}
