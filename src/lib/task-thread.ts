import { Worker, type ResourceLimits } from "node:worker_threads";
import { Serial } from "./serial.ts";

/** How long a thread may take to start, on a busy machine too. */
const startMs = 60_000;

/**
 * A task was not done: too many tasks wait or no thread started (`busy`), or its thread ended (`ended`).
 */
export class TaskNotDone extends Error {
  override readonly name = "TaskNotDone";
  readonly reason: "busy" | "ended";

  constructor(reason: TaskNotDone["reason"], options?: ErrorOptions) {
    super(`the task was not done: ${reason}`, options);
    this.reason = reason;
  }
}

const isClone = import.meta.url.endsWith(".ts");

/** The module in the form in which this code runs: `.ts` in a clone, and the compiled `.js` in the package. */
function inThisForm(module: URL): URL {
  return isClone ? module : new URL(module.href.replace(/\.ts$/, ".js"));
}

export interface TaskThreadOptions {
  /**
   * A module that posts one message once it is loaded, and answers every message with one message; named `.ts`, as in a
   * clone.
   */
  readonly module: URL;
  /** A thread without a task ends after this time, and releases its memory. */
  readonly idleMs: number;
  /** How many tasks may wait or run; absent: any number. */
  readonly most?: number;
  /**
   * The limits of the thread's memory: a task that needs more ends its thread. A last resort: a fast allocation ends the
   * process, so a caller bounds its tasks.
   */
  readonly limits: ResourceLimits;
}

interface Started {
  readonly worker: Worker;
  /** Resolves once the module is loaded. */
  readonly ready: Promise<void>;
}

/**
 * Long work on a thread of its own, so that the event loop never waits for it. One task after the other; the thread
 * starts with the first task and ends after an idle time.
 */
export class TaskThread implements AsyncDisposable {
  readonly #options: TaskThreadOptions;
  readonly #tasks = new Serial();
  #count = 0;
  #thread: Started | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(options: TaskThreadOptions) {
    this.#options = options;
  }

  /** Resolves with the module's answer. Rejects with TaskNotDone. */
  async call<Answer>(question: unknown): Promise<Answer> {
    if (this.#count >= (this.#options.most ?? Infinity)) throw new TaskNotDone("busy");
    using _use = this.hold();
    return await this.#tasks.run(() => this.#do<Answer>(question));
  }

  /** Keeps the thread between tasks until disposed, once: the module's variables may hold the state of several tasks. */
  hold(): Disposable {
    this.#count += 1;
    clearTimeout(this.#idle);
    return {
      [Symbol.dispose]: () => {
        this.#count -= 1;
        if (this.#count === 0) this.#idle = setTimeout(() => void this.#end(), this.#options.idleMs).unref();
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#idle);
    await this.#end();
  }

  async #do<Answer>(question: unknown): Promise<Answer> {
    const thread = (this.#thread ??= this.#start());
    const { worker } = thread;
    worker.ref();
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const ended = (cause?: unknown): void => reject(new TaskNotDone("ended", { cause }));
    const timer = setTimeout(() => reject(new TaskNotDone("busy")), startMs);
    worker.once("error", ended).once("exit", ended);
    try {
      await Promise.race([thread.ready, promise]);
      clearTimeout(timer);
      worker.once("message", resolve);
      worker.postMessage(question, []);
      return await promise;
    } catch (error) {
      if (this.#thread === thread) await this.#end();
      throw error;
    } finally {
      clearTimeout(timer);
      worker.off("message", resolve).off("error", ended).off("exit", ended);
      worker.unref();
    }
  }

  #start(): Started {
    const { module, limits } = this.#options;
    const worker = new Worker(inThisForm(module), { resourceLimits: limits });
    const ready = new Promise<void>((resolve) => worker.once("message", () => resolve()));
    const thread = { worker, ready };
    // An error between two tasks ends the thread; the next task detects that.
    worker.on("error", () => undefined);
    worker.once("exit", () => {
      if (this.#thread === thread) this.#thread = undefined;
    });
    return thread;
  }

  async #end(): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    await thread?.worker.terminate();
  }
}
