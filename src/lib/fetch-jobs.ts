const firstRetryMs = 2000;
const slowestRetryMs = 300_000;
/** However long a server asks to be left alone. */
const longestRetryMs = 3_600_000;
const progressMs = 1000;

/** Why an attempt has failed. */
export interface FetchFailure {
  /** Another attempt changes nothing until a person does something. */
  readonly isTerminal: boolean;
  /** No other attempt is made before that. */
  readonly retryAfterMs?: number;
}

/** How the fetching of one thing stands. */
export type FetchState<Progress, Failure> =
  | { readonly state: "running" | "paused"; readonly progress: Progress }
  | { readonly state: "failed"; readonly progress: Progress; readonly failure: Failure; readonly retryAt?: Date };

export interface FetchJobsOptions<Progress, Failure extends FetchFailure> {
  newProgress(key: string): Progress;
  /** One attempt; resolves once the thing is there. `signal` ends it; what has come may stay for the next attempt. */
  fetch(key: string, progress: Progress, signal: AbortSignal): Promise<void>;
  failureOf(key: string, error: unknown): Failure;
  /** Progress, an end, or another attempt that is due: `requester` asks again to learn which. */
  onChange(requester: string): void;
}

interface Job<Progress, Failure> {
  /** Why each requester wants it: another requester's reason is none to try again for this one. */
  readonly attempts: Map<string, string>;
  readonly progress: Progress;
  /** Ends the attempt that runs; undefined when none does. */
  running: AbortController | undefined;
  /** The requesters that hold it back; the job runs without any. */
  pausedBy: Set<string>;
  failures: number;
  failure: Failure | undefined;
  /** Until another attempt is due, after a failure that may pass. */
  timer: NodeJS.Timeout | undefined;
  retryAt: Date | undefined;
  isDue: boolean;
}

/**
 * Fetches things in the background, each thing once, however many requesters wait for it. A fetch whose failure may pass
 * is tried again with back-off, as long as a requester is left.
 */
export class FetchJobs<Progress, Failure extends FetchFailure> implements AsyncDisposable {
  readonly #options: FetchJobsOptions<Progress, Failure>;
  readonly #jobs = new Map<string, Job<Progress, Failure>>();
  /** The last attempt at each thing, which may have ended. */
  readonly #ending = new Map<string, Promise<void>>();
  #isClosed = false;

  constructor(options: FetchJobsOptions<Progress, Failure>) {
    this.#options = options;
  }

  /**
   * Returns the result of `find`, or else the job, and starts the job if there is none. `attempt` names the requester's
   * reason: a new attempt starts a job again that had failed for good. Rejects as `find` does.
   */
  async join<Found>(
    key: string,
    { requester, attempt }: { readonly requester: string; readonly attempt: string },
    find: () => Promise<Found | undefined>,
  ): Promise<{ readonly found: Found } | { readonly job: FetchState<Progress, Failure> }> {
    const before = this.#jobs.get(key);
    const isAnother = before?.failure !== undefined && before.attempts.get(requester) !== attempt;
    if (before !== undefined && (before.pausedBy.size > 0 || !(isAnother || before.isDue)))
      return { job: this.#joined(before, requester, attempt) };
    const found = await find();
    // Meanwhile requesters may have left the job, paused it, or begun another one.
    const present = this.#jobs.get(key);
    const isSame = present !== undefined && present === before;
    if (found === undefined && present !== undefined && (!isSame || present.pausedBy.size > 0))
      return { job: this.#joined(present, requester, attempt) };
    if (isSame) this.#forget(key, present);
    if (found !== undefined) return { found };
    const begun = this.#begin(key, isSame ? present : undefined, isAnother ? 0 : (before?.failures ?? 0));
    return { job: this.#joined(begun, requester, attempt) };
  }

  /**
   * The state of the job that `requester` has requested with that attempt. Undefined if there is no such job, or if
   * another attempt is due, which `join` begins. Begins nothing.
   */
  followed(
    key: string,
    { requester, attempt }: { readonly requester: string; readonly attempt: string },
  ): FetchState<Progress, Failure> | undefined {
    const job = this.#jobs.get(key);
    if (job === undefined || job.attempts.get(requester) !== attempt || (job.isDue && job.pausedBy.size === 0))
      return undefined;
    return stateOf(job);
  }

  /** How the job stands; undefined: there is none. */
  stateOf(key: string): FetchState<Progress, Failure> | undefined {
    const job = this.#jobs.get(key);
    return job === undefined ? undefined : stateOf(job);
  }

  /** Who wants it. */
  requestersOf(key: string): readonly string[] {
    return [...(this.#jobs.get(key)?.attempts.keys() ?? [])];
  }

  /** Ends the attempt that runs; none follows before `resume`, or before each requester that has paused it leaves. */
  pause(key: string, requester: string): void {
    const job = this.#jobs.get(key);
    if (job === undefined) return;
    const wasPaused = job.pausedBy.size > 0;
    job.pausedBy.add(requester);
    if (wasPaused) return;
    job.running?.abort(new Error("paused"));
    clearTimeout(job.timer);
    this.#notify(job);
  }

  /** Ends a pause, whichever requester has begun it. */
  resume(key: string): void {
    const job = this.#jobs.get(key);
    if (job === undefined || job.pausedBy.size === 0) return;
    this.#forget(key, job);
    this.#notify(this.#begin(key, job, 0));
  }

  /** Ends the job for this requester, and altogether when nobody else asks. Resolves once no attempt of it runs. */
  async cancel(key: string, requester: string): Promise<void> {
    const job = this.#jobs.get(key);
    if (job === undefined) return;
    job.attempts.delete(requester);
    if (job.attempts.size > 0) {
      // Nobody else may know that it is paused.
      if (job.pausedBy.size === 1 && job.pausedBy.has(requester)) this.resume(key);
      else job.pausedBy.delete(requester);
      return;
    }
    this.#forget(key, job);
    job.running?.abort(new Error("cancelled"));
    await this.#ending.get(key);
  }

  /**
   * `cancel`s every job of this requester that is not in `kept`, which is only asked for where there is such a job: most
   * requesters have none. Resolves with the number of them.
   */
  async keepOnly(requester: string, kept: () => ReadonlySet<string>): Promise<number> {
    const own = [...this.#jobs].filter(([, { attempts }]) => attempts.has(requester)).map(([key]) => key);
    if (own.length === 0) return 0;
    const keys = kept();
    const left = own.filter((key) => !keys.has(key));
    await Promise.all(left.map((key) => this.cancel(key, requester)));
    return left.length;
  }

  /** Ends every attempt. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    for (const job of this.#jobs.values()) {
      clearTimeout(job.timer);
      job.running?.abort(new Error("closing"));
    }
    await Promise.all(this.#ending.values());
  }

  #joined(job: Job<Progress, Failure>, requester: string, attempt: string): FetchState<Progress, Failure> {
    job.attempts.set(requester, attempt);
    return stateOf(job);
  }

  #begin(key: string, before: Job<Progress, Failure> | undefined, failures: number): Job<Progress, Failure> {
    const running = new AbortController();
    if (this.#isClosed) running.abort(new Error("closing"));
    const job: Job<Progress, Failure> = {
      attempts: new Map(before?.attempts),
      progress: this.#options.newProgress(key),
      running,
      pausedBy: new Set(),
      failures,
      failure: undefined,
      timer: undefined,
      retryAt: undefined,
      isDue: false,
    };
    this.#jobs.set(key, job);
    const earlier = this.#ending.get(key) ?? Promise.resolve();
    // An attempt that was ended may still hold the files that the next one needs.
    const ending = earlier.then(() => this.#run(key, job, running.signal));
    this.#ending.set(key, ending);
    void ending.then(() => void (this.#ending.get(key) === ending && this.#ending.delete(key)));
    return job;
  }

  async #run(key: string, job: Job<Progress, Failure>, signal: AbortSignal): Promise<void> {
    const timer = setInterval(() => this.#notify(job), progressMs).unref();
    try {
      signal.throwIfAborted();
      await this.#options.fetch(key, job.progress, signal);
      this.#forget(key, job);
    } catch (error) {
      if (!signal.aborted) this.#failed(job, this.#options.failureOf(key, error));
    } finally {
      clearInterval(timer);
      job.running = undefined;
      this.#notify(job);
    }
  }

  #failed(job: Job<Progress, Failure>, failure: Failure): void {
    job.failure = failure;
    job.failures += 1;
    if (failure.isTerminal) return;
    const backOffMs = Math.min(slowestRetryMs, firstRetryMs * 2 ** (job.failures - 1));
    const waitMs = Math.min(longestRetryMs, Math.max(backOffMs, failure.retryAfterMs ?? 0));
    job.retryAt = new Date(Date.now() + waitMs);
    job.timer = setTimeout(() => {
      job.isDue = true;
      this.#notify(job);
    }, waitMs).unref();
  }

  #forget(key: string, job: Job<Progress, Failure>): void {
    clearTimeout(job.timer);
    if (this.#jobs.get(key) === job) this.#jobs.delete(key);
  }

  #notify({ attempts }: Job<Progress, Failure>): void {
    if (!this.#isClosed) for (const requester of attempts.keys()) this.#options.onChange(requester);
  }
}

function stateOf<Progress, Failure>(job: Job<Progress, Failure>): FetchState<Progress, Failure> {
  const { progress, failure, retryAt, pausedBy } = job;
  const isPaused = pausedBy.size > 0;
  if (isPaused || failure === undefined) return { state: isPaused ? "paused" : "running", progress };
  return { state: "failed", progress, failure, ...(retryAt === undefined ? {} : { retryAt }) };
}
