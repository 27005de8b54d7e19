import { mkdir, open, rm, statfs, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { isNoSpace } from "../../lib/disk-space.ts";
import { FetchError } from "./fetch-error.ts";
import type { FileHash, FileThread } from "./file-thread.ts";
import {
  blockBytes,
  blockLine,
  headLine,
  isSameContent,
  readJournal,
  type BlockSum,
  type Content,
} from "./partial-journal.ts";

/** A range of bytes of a file. The end is exclusive. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

export interface PartialFileOptions {
  /** The directory of this file alone, with its `data` and `journal`. */
  readonly directory: string;
  readonly content: Content;
  readonly fileThread: FileThread;
  /** The number of bytes that must stay free on the disk. */
  readonly reserveBytes: number;
  readonly signal: AbortSignal;
  /** Called for every block that is on disk. */
  readonly onBlock: (bytesDone: number) => void;
}

const missing = 0;
const claimed = 1;
const present = 2;

/**
 * A file that is fetched in blocks, in any order. Its journal says which blocks are on disk, with a checksum each:
 * after a restart those blocks are read and checked before they are trusted, so a process may end at any moment.
 */
export class PartialFile implements AsyncDisposable {
  readonly dataPath: string;
  readonly content: Content;
  /** Whether blocks of an earlier attempt were kept. */
  readonly isResumed: boolean;
  readonly #options: PartialFileOptions;
  readonly #data: FileHandle;
  readonly #journal: FileHandle;
  readonly #blocks: Uint8Array;
  readonly #hash: FileHash;
  #prefix = 0;
  #presentBytes = 0;

  /** Rejects with the system's errors, or as `signal` was aborted. */
  static async open(options: PartialFileOptions): Promise<PartialFile> {
    const { directory, content, fileThread, signal } = options;
    const [dataPath, journalPath] = [join(directory, "data"), join(directory, "journal")];
    await mkdir(directory, { recursive: true, mode: 0o750 });
    const known = await readJournal(journalPath);
    const blocks = new Map(known !== undefined && isSameContent(known.content, content) ? known.blocks : []);
    await using opened = new AsyncDisposableStack();
    const hash = opened.use(fileThread.begin(dataPath));
    for (const index of await wrongBlocks(hash, content, blocks, signal)) blocks.delete(index);
    if (blocks.size === 0) await rm(dataPath, { force: true });
    // The journal is written again: a truncated line must not become the beginning of the next line.
    const lines = [...blocks].map(([index, sum]) => blockLine(index, sum));
    await writeFileAtomic(journalPath, headLine(content) + lines.join(""), { fsync: false, mode: 0o640 });
    const data = opened.use(await open(dataPath, blocks.size === 0 ? "wx+" : "r+", 0o644));
    const journal = opened.use(await open(journalPath, "a"));
    const file = new PartialFile(options, { hash, data, journal }, [...blocks.keys()]);
    opened.move();
    return file;
  }

  private constructor(
    options: PartialFileOptions,
    { hash, data, journal }: { readonly hash: FileHash; readonly data: FileHandle; readonly journal: FileHandle },
    blocks: readonly number[],
  ) {
    this.#options = options;
    this.content = options.content;
    this.dataPath = hash.path;
    this.isResumed = blocks.length > 0;
    this.#data = data;
    this.#journal = journal;
    this.#hash = hash;
    this.#blocks = new Uint8Array(Math.ceil(this.content.sizeBytes / blockBytes));
    for (const index of blocks) this.#take(index);
    this.#advance();
  }

  get bytesDone(): number {
    return this.#presentBytes;
  }

  /** The next range that no connection fetches, of at most so many blocks; undefined when none is left. */
  claim(blocks: number): Span | undefined {
    const from = this.#blocks.indexOf(missing, this.#prefix);
    if (from === -1) return undefined;
    let to = from;
    while (to < this.#blocks.length && to - from < blocks && this.#blocks[to] === missing) this.#blocks[to++] = claimed;
    return { from: from * blockBytes, to: Math.min(to * blockBytes, this.content.sizeBytes) };
  }

  /** Returns the missing part of a claimed range, so that another connection may claim it. */
  giveBack({ from, to }: Span): void {
    for (let index = from / blockBytes; index * blockBytes < to; index++) {
      if (this.#blocks[index] === claimed) this.#blocks[index] = missing;
    }
  }

  /** Writes one complete block that lies in shared memory. Rejects with FetchError if the disk is full. */
  async write(index: number, block: Buffer): Promise<void> {
    try {
      await this.#hash.write({ data: this.#data.fd, journal: this.#journal.fd, index, block });
    } catch (error) {
      throw isNoSpace(error) ? this.#noSpace(error) : error;
    }
    this.#take(index);
    this.#advance();
    this.#options.onBlock(this.#presentBytes);
  }

  /** Everything is received again, over one connection. Blocks that are being written must be written before. */
  async restart(): Promise<void> {
    await this.#hash.restart();
    this.#blocks.fill(claimed);
    this.#prefix = 0;
    this.#presentBytes = 0;
    this.#options.onBlock(0);
  }

  /** Rejects with FetchError where `bytes` more would leave less than the reserve. */
  async checkRoom(bytes: number): Promise<void> {
    const { directory, reserveBytes } = this.#options;
    const { bavail, bsize } = await statfs(directory);
    if (bavail * bsize - reserveBytes < bytes) throw this.#noSpace(undefined, bavail * bsize, bytes);
  }

  /** The number of missing bytes. */
  get bytesLeft(): number {
    return this.content.sizeBytes - this.#presentBytes;
  }

  /** The file's SHA-256, once all blocks are written. The file may not survive a power cut yet. */
  async finish(): Promise<string> {
    return await this.#hash.digest(this.content.sizeBytes);
  }

  /** Closes the file. Received blocks are kept for a later attempt. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#hash[Symbol.asyncDispose]();
    await this.#journal.close();
    await this.#data.close();
  }

  #take(index: number): void {
    if (this.#blocks[index] === present) return;
    this.#blocks[index] = present;
    this.#presentBytes += Math.min(blockBytes, this.content.sizeBytes - index * blockBytes);
  }

  #advance(): void {
    const before = this.#prefix;
    while (this.#blocks[this.#prefix] === present) this.#prefix += 1;
    if (this.#prefix > before) this.#hash.advance(Math.min(this.#prefix * blockBytes, this.content.sizeBytes));
  }

  #noSpace(cause: unknown, free?: number, needed = 0): FetchError {
    const { directory, reserveBytes, content } = this.#options;
    const sum =
      free === undefined
        ? "the disk is full"
        : `${needed} bytes are needed and ${free} are free, of which ${reserveBytes} stay free`;
    return new FetchError("NoSpace", `${content.source} does not fit on the disk of ${directory}: ${sum}`, { cause });
  }
}

/** The blocks that do not match their journal; all of them where the file cannot be read. */
async function wrongBlocks(
  hash: FileHash,
  content: Content,
  blocks: ReadonlyMap<number, BlockSum>,
  signal: AbortSignal,
): Promise<readonly number[]> {
  try {
    return await hash.wrongBlocks({ sizeBytes: content.sizeBytes, blockBytes }, blocks, signal);
  } catch {
    signal.throwIfAborted();
    return [...blocks.keys()];
  }
}
