import { TaskThread } from "../../lib/task-thread.ts";

/** The most bytes that one request reads, so that several files take turns and an abort is noticed. */
const stepBytes = 8 * 1024 * 1024;
const idleMs = 10_000;

/** Reads the file on from where it was read to, up to a position; or ends its hash, with the digest or without. */
type Step = number | "digest" | "forget";

/** A request to the thread. One answer follows each request, in order. */
export interface HashQuestion {
  readonly id: number;
  readonly path: string;
  readonly step: Step;
}

export type HashAnswer =
  { readonly value: string | undefined } | { readonly error: string; readonly code: string | undefined };

/**
 * Reads and hashes files on a separate thread, so that the event loop never waits for it. All downloads share the
 * thread, which ends when no download has used it for a while.
 */
export class HashThread implements AsyncDisposable {
  readonly #thread = new TaskThread({
    module: new URL("hash-worker.ts", import.meta.url),
    idleMs,
    limits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1, stackSizeMb: 1 },
  });
  #lastId = 0;

  /** The SHA-256 of the file at `path`. Dispose it once. */
  begin(path: string): FileHash {
    const id = ++this.#lastId;
    // The thread has the state of the hash.
    return new FileHash(path, this.#thread.hold(), async (step) => {
      const answer = await this.#thread.call<HashAnswer>({ id, path, step } satisfies HashQuestion);
      if ("value" in answer) return answer.value;
      throw Object.assign(new Error(answer.error), answer.code === undefined ? {} : { code: answer.code });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#thread[Symbol.asyncDispose]();
  }
}

/** The SHA-256 of one file, updated in order while the complete part at its beginning grows. */
export class FileHash implements AsyncDisposable {
  readonly path: string;
  readonly #use: Disposable;
  readonly #ask: (step: Step) => Promise<string | undefined>;
  #wanted = 0;
  #reached = 0;
  #error: unknown;
  #running: Promise<void> | undefined;

  constructor(path: string, use: Disposable, ask: (step: Step) => Promise<string | undefined>) {
    this.path = path;
    this.#use = use;
    this.#ask = ask;
  }

  /** Bytes up to `to` are complete on disk. Reads them in the background. */
  advance(to: number): void {
    this.#wanted = Math.max(this.#wanted, to);
    if (this.#wanted > this.#reached) this.#running ??= this.#run();
  }

  /**
   * The digest of the first `sizeBytes`, once; `onRead` gets the progress. Rejects with the error of the read, or as
   * `signal` was aborted.
   */
  async digest(
    sizeBytes: number,
    signal: AbortSignal,
    onRead: (bytes: number) => void = () => undefined,
  ): Promise<string> {
    while (this.#reached < sizeBytes && this.#error === undefined) {
      signal.throwIfAborted();
      this.advance(Math.min(sizeBytes, this.#reached + stepBytes));
      await this.#running;
      onRead(this.#reached);
    }
    if (this.#error !== undefined) throw this.#error;
    return String(await this.#ask("digest"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#wanted = this.#reached;
    await this.#running;
    await this.#ask("forget").catch(() => undefined);
    this.#use[Symbol.dispose]();
  }

  async #run(): Promise<void> {
    try {
      while (this.#reached < this.#wanted && this.#error === undefined) {
        const to = Math.min(this.#wanted, this.#reached + stepBytes);
        await this.#ask(to);
        this.#reached = to;
      }
    } catch (error) {
      this.#error = error;
    } finally {
      this.#running = undefined;
    }
  }
}
