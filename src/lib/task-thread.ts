import { Worker } from "node:worker_threads";
import { Serial } from "./serial.ts";

/** A task was not done: too many wait already, it took longer than it may, or its thread ended under it. */
export class TaskNotDone extends Error {
  override readonly name = "TaskNotDone";
  readonly reason: "busy" | "late" | "ended";

  constructor(reason: TaskNotDone["reason"], options?: ErrorOptions) {
    super(`the task was not done: ${reason}`, options);
    this.reason = reason;
  }
}

export interface TaskThreadOptions {
  /** A module that answers every message with one message. */
  readonly module: URL;
  /** The longest that one task may take; its thread is ended then. */
  readonly limitMs: number;
  /** A thread without a task ends after this, and gives its memory back. */
  readonly idleMs: number;
  /** How many tasks may wait or be under way. */
  readonly most: number;
  /**
   * Of the thread's heap: a task that needs more ends its thread. A last resort: what allocates fast enough ends the process,
   * so a caller bounds its tasks.
   */
  readonly heapMegabytes: number;
}

/**
 * Work that may take long, on a thread of its own, so that the event loop never waits for it. One task after the other;
 * the thread is started by the first and ended where there are none.
 */
export class TaskThread implements AsyncDisposable {
  readonly #options: TaskThreadOptions;
  readonly #tasks = new Serial();
  #count = 0;
  #worker: Worker | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(options: TaskThreadOptions) {
    this.#options = options;
  }

  /** Answers with what the module answers. Rejects with TaskNotDone. */
  async ask<Answer>(question: unknown): Promise<Answer> {
    if (this.#count >= this.#options.most) throw new TaskNotDone("busy");
    this.#count += 1;
    clearTimeout(this.#idle);
    try {
      return await this.#tasks.run(() => this.#do<Answer>(question));
    } finally {
      this.#count -= 1;
      if (this.#count === 0) this.#idle = setTimeout(() => void this.#end(), this.#options.idleMs).unref();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#idle);
    await this.#end();
  }

  async #do<Answer>(question: unknown): Promise<Answer> {
    const worker = (this.#worker ??= this.#start());
    worker.ref();
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const ended = (cause?: unknown): void => reject(new TaskNotDone("ended", { cause }));
    const timer = setTimeout(() => reject(new TaskNotDone("late")), this.#options.limitMs);
    worker.once("message", resolve).once("error", ended).once("exit", ended);
    try {
      worker.postMessage(question, []);
      return await promise;
    } catch (error) {
      if (this.#worker === worker) await this.#end();
      throw error;
    } finally {
      clearTimeout(timer);
      worker.off("message", resolve).off("error", ended).off("exit", ended);
      worker.unref();
    }
  }

  #start(): Worker {
    const { module, heapMegabytes } = this.#options;
    const worker = new Worker(module, { resourceLimits: { maxOldGenerationSizeMb: heapMegabytes } });
    // An error between two tasks ends the thread, which is found gone by the next one.
    worker.on("error", () => undefined);
    worker.once("exit", () => {
      if (this.#worker === worker) this.#worker = undefined;
    });
    return worker;
  }

  async #end(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    await worker?.terminate();
  }
}
