import { TaskThread } from "../../lib/task-thread.ts";
import type { FileAnswer, FileQuestion } from "./file-task.ts";

/** The most bytes that one request reads, so that several files and writes take turns and an abort is noticed. */
const stepBytes = 8 * 1024 * 1024;
const idleMs = 10_000;

/**
 * Writes, checks and hashes files on a thread of its own, so that the event loop never waits for a disk or a checksum.
 * All downloads share the thread. The thread ends when no download has used it for a while.
 */
export class FileThread implements AsyncDisposable {
  readonly #thread = new TaskThread({
    module: new URL("file-worker.ts", import.meta.url),
    idleMs,
    limits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1, stackSizeMb: 1 },
  });
  #lastId = 0;

  /** A hash of the file at `path` that follows it as it grows. Dispose it once. */
  begin(path: string): FileHash {
    // The thread has the state of the hash.
    const use = this.#thread.hold();
    this.#lastId += 1;
    const id = this.#lastId;
    return new FileHash(path, {
      advance: async (to) => void (await this.#call({ do: "advance", id, path, to })),
      write: async (block) => Number(await this.#call({ do: "write", id, ...block })),
      digest: async () => String(await this.#call({ do: "digest", id })),
      end: async () => {
        await this.#call({ do: "forget", id }).catch(() => undefined);
        use[Symbol.dispose]();
      },
    });
  }

  /** The indexes of the blocks whose bytes on disk do not match their CRC-32. */
  async wrongBlocks(
    path: string,
    { sizeBytes, blockBytes }: { readonly sizeBytes: number; readonly blockBytes: number },
    blocks: ReadonlyMap<number, number>,
    signal: AbortSignal,
  ): Promise<readonly number[]> {
    const all = [...blocks];
    const wrong: number[] = [];
    const step = Math.max(1, Math.floor(stepBytes / blockBytes));
    for (let at = 0; at < all.length; at += step) {
      signal.throwIfAborted();
      const part = all.slice(at, at + step);
      const found = await this.#call({ do: "check", path, sizeBytes, blockBytes, blocks: part });
      if (typeof found === "object") wrong.push(...found);
    }
    return wrong;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#thread[Symbol.asyncDispose]();
  }

  async #call(question: FileQuestion): Promise<string | number | readonly number[] | undefined> {
    const answer = await this.#thread.call<FileAnswer>(question);
    if ("value" in answer) return answer.value;
    throw Object.assign(new Error(answer.error), answer.code === undefined ? {} : { code: answer.code });
  }
}

/** A block of a file, in memory that threads share. */
export interface WrittenBlock {
  /** The descriptors of the file and of its journal. */
  readonly data: number;
  readonly journal: number;
  readonly index: number;
  readonly block: Uint8Array;
}

interface Steps {
  advance(to: number): Promise<void>;
  write(block: WrittenBlock): Promise<number>;
  digest(): Promise<string>;
  end(): Promise<void>;
}

/** The SHA-256 of one file, updated in order while the complete part at its beginning grows. */
export class FileHash implements AsyncDisposable {
  readonly path: string;
  readonly #steps: Steps;
  #wanted = 0;
  #reached = 0;
  #error: unknown;
  #running: Promise<void> | undefined;

  constructor(path: string, steps: Steps) {
    this.path = path;
    this.#steps = steps;
  }

  /** Writes a block, and hashes it from memory if it follows the hashed bytes. Rejects with the system's errors. */
  async write(block: WrittenBlock): Promise<void> {
    this.#reached = Math.max(this.#reached, await this.#steps.write(block));
  }

  /** Bytes up to `to` are complete on disk. Reads them in the background. */
  advance(to: number): void {
    this.#wanted = Math.max(this.#wanted, to);
    if (this.#wanted > this.#reached) this.#running ??= this.#run();
  }

  /**
   * The digest of the first `sizeBytes`; `onRead` gets the progress. Rejects with what the reading met, or as
   * `signal` was aborted.
   */
  async digest(
    sizeBytes: number,
    signal?: AbortSignal,
    onRead: (bytes: number) => void = () => undefined,
  ): Promise<string> {
    while (this.#reached < sizeBytes && this.#error === undefined) {
      signal?.throwIfAborted();
      this.advance(signal === undefined ? sizeBytes : Math.min(sizeBytes, this.#reached + stepBytes));
      await this.#running;
      onRead(this.#reached);
    }
    if (this.#error !== undefined) throw this.#error;
    return await this.#steps.digest();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#wanted = this.#reached;
    await this.#running;
    await this.#steps.end();
  }

  async #run(): Promise<void> {
    try {
      while (this.#reached < this.#wanted && this.#error === undefined) {
        const to = Math.min(this.#wanted, this.#reached + stepBytes);
        await this.#steps.advance(to);
        this.#reached = Math.max(this.#reached, to);
      }
    } catch (error) {
      this.#error = error;
    } finally {
      this.#running = undefined;
    }
  }
}
