import { TaskThread } from "../../lib/task-thread.ts";
import type { FileAnswer, FileQuestion } from "./file-task.ts";
import type { BlockSum } from "./partial-journal.ts";

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
      follow: async (layout, part) => Number(await this.#call({ do: "follow", id, path, ...layout, ...part })),
      check: async (layout, sums) => {
        const found = await this.#call({ do: "check", path, ...layout, sums });
        return typeof found === "object" ? found : [];
      },
      restart: async () => void (await this.#call({ do: "forget", id })),
      digest: async () => String(await this.#call({ do: "digest", id })),
      end: async () => {
        await this.#call({ do: "forget", id }).catch(() => undefined);
        use[Symbol.dispose]();
      },
    });
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

/** The size of a file, and of all of its blocks but the last. */
interface Layout {
  readonly sizeBytes: number;
  readonly blockBytes: number;
}

type Sums = readonly (readonly [index: number, sum: number])[];

/** The end of what one request reads, and the sums up to there. */
interface FollowPart {
  readonly to: number;
  readonly sums: Sums;
}

interface Steps {
  follow(layout: Layout, part: FollowPart): Promise<number>;
  check(layout: Layout, sums: Sums): Promise<readonly number[]>;
  advance(to: number): Promise<void>;
  write(block: WrittenBlock): Promise<number>;
  restart(): Promise<void>;
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

  /**
   * The indexes of the blocks whose bytes on disk do not match their sum. The right bytes at the beginning of the file
   * are hashed by this. Call it first.
   */
  async wrongBlocks(
    layout: Layout,
    blocks: ReadonlyMap<number, BlockSum>,
    signal: AbortSignal,
  ): Promise<readonly number[]> {
    const { blockBytes } = layout;
    const sumsOf = (of: BlockSum["of"]): Sums =>
      [...blocks].flatMap(([index, block]) => (block.of === of ? [[index, block.sum] as const] : []));
    const prefixes = sumsOf("prefix").toSorted(([a], [b]) => a - b);
    for (const part of followParts(prefixes, layout)) {
      signal.throwIfAborted();
      this.#reached = await this.#steps.follow(layout, part);
      if (part.sums.length > 0 && this.#reached < part.to) break;
    }
    const isUnknown = ([index]: Sums[number]): boolean => index * blockBytes >= this.#reached;
    const wrong = prefixes.filter(isUnknown).map(([index]) => index);
    for (const part of partsOf(sumsOf("own").filter(isUnknown), blockBytes)) {
      signal.throwIfAborted();
      wrong.push(...(await this.#steps.check(layout, part)));
    }
    return wrong;
  }

  /** The file is written again from its beginning: what was hashed of it counts no more. */
  async restart(): Promise<void> {
    this.#wanted = this.#reached;
    await this.#running;
    await this.#steps.restart();
    this.#wanted = 0;
    this.#reached = 0;
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

/** As many bytes at once as one request reads: between two blocks with such a sum may lie gigabytes. */
function* followParts(sums: Sums, { sizeBytes, blockBytes }: Layout): Iterable<FollowPart> {
  let from = 0;
  let part: { to: number; sums: Sums } = { to: 0, sums: [] };
  for (const sum of sums) {
    const to = Math.min((sum[0] + 1) * blockBytes, sizeBytes);
    if (to - from > stepBytes && part.sums.length > 0) {
      yield part;
      from = part.to;
      part = { to, sums: [] };
    }
    for (; to - from > stepBytes; from += stepBytes) yield { to: from + stepBytes, sums: [] };
    part = { to, sums: [...part.sums, sum] };
  }
  if (part.sums.length > 0) yield part;
}

/** As many blocks at once as one request reads. */
function* partsOf(sums: Sums, blockBytes: number): Iterable<Sums> {
  const step = Math.max(1, Math.floor(stepBytes / blockBytes));
  for (let at = 0; at < sums.length; at += step) yield sums.slice(at, at + step);
}
