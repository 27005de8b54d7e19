import { mkdir, open, rm, stat, statfs, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { rangeBytes, type Content } from "../../api/partial-record.ts";
import { isNoSpace } from "../../lib/disk-space.ts";
import { FetchError } from "./fetch-error.ts";
import type { FileHash, HashThread } from "./hash-thread.ts";
import { isSameContent, readPartial, writePartial } from "./partial-record.ts";

/** A range of bytes of a file. The end is exclusive. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

export interface PartialFileOptions {
  /** The directory of this file alone, with its `data` and its record. */
  readonly directory: string;
  readonly content: Content;
  /** False: the whole file is one range, which no later attempt continues. */
  readonly usesRanges: boolean;
  readonly hashThread: HashThread;
  /** The number of bytes that must stay free on the disk. */
  readonly reserveBytes: number;
  /** Called whenever bytes were written. */
  readonly onBytes: (bytesDone: number) => void;
}

/** A record is written at most so often: the process may lose the bytes of this time, and the disk syncs no more often. */
const recordMs = 1000;

/**
 * A file that is fetched in ranges, in any order. Its record has for each range how far it is written. The data is
 * synced before, so that a record never promises more than the disk has, and a process may end at any moment.
 */
export class PartialFile implements AsyncDisposable {
  readonly dataPath: string;
  readonly content: Content;
  /** Whether bytes of an earlier attempt were kept. */
  readonly isResumed: boolean;
  readonly #options: PartialFileOptions;
  readonly #data: FileHandle;
  readonly #hash: FileHash;
  readonly #rangeBytes: number;
  /** For each range, how many bytes from its beginning are written. */
  readonly #marks: number[];
  readonly #claimed = new Set<number>();
  /** The first range that is incomplete. */
  #first = 0;
  #bytesDone: number;
  #recording: Promise<void> | undefined;
  #recordedAt = -Infinity;
  #recordError: unknown;
  #isFinished = false;

  /** Rejects with the system's errors. */
  static async open(options: PartialFileOptions): Promise<PartialFile> {
    const { directory, content, usesRanges, hashThread } = options;
    const dataPath = join(directory, "data");
    await mkdir(directory, { recursive: true, mode: 0o750 });
    const known = await knownMarks(directory, dataPath, content);
    if (known === undefined) await rm(dataPath, { force: true });
    // A cleanup finds the source in the record, also where nothing came.
    await writePartial(directory, { content, marks: known ?? [] });
    const count = usesRanges ? Math.ceil(content.sizeBytes / rangeBytes) : 1;
    const marks = Array.from({ length: count }, (_, index) => known?.[index] ?? 0);
    const data = await open(dataPath, known === undefined ? "wx+" : "r+", 0o644);
    return new PartialFile(options, hashThread.begin(dataPath), data, marks);
  }

  private constructor(options: PartialFileOptions, hash: FileHash, data: FileHandle, marks: number[]) {
    const { content, usesRanges } = options;
    this.#options = options;
    this.content = content;
    this.dataPath = hash.path;
    this.#data = data;
    this.#hash = hash;
    this.#rangeBytes = usesRanges ? rangeBytes : Math.max(1, content.sizeBytes);
    this.#marks = marks;
    this.#bytesDone = marks.reduce((sum, mark) => sum + mark, 0);
    this.isResumed = this.#bytesDone > 0;
    this.#advance();
  }

  get bytesDone(): number {
    return this.#bytesDone;
  }

  /** The missing part of the next range that no connection fetches; undefined when none is left. */
  claim(): Span | undefined {
    for (let index = this.#first; index < this.#marks.length; index++) {
      if (this.#claimed.has(index) || this.#isWhole(index)) continue;
      this.#claimed.add(index);
      return { from: this.#writtenTo(index), to: this.#endOf(index) };
    }
    return undefined;
  }

  /** Ends a claim: another connection may claim the part of the range that is still missing. */
  giveBack({ from }: Span): void {
    this.#claimed.delete(this.#rangeOf(from));
  }

  /** Writes the next bytes of a claimed range. Rejects with FetchError if the disk is full. */
  async write(position: number, bytes: Buffer): Promise<void> {
    try {
      for (let at = 0; at < bytes.length;)
        at += (await this.#data.write(bytes, at, bytes.length - at, position + at)).bytesWritten;
      if (this.#recordError !== undefined) throw this.#recordError;
    } catch (error) {
      throw isNoSpace(error) ? this.#noSpace(error) : error;
    }
    const index = this.#rangeOf(position);
    this.#marks[index] = position + bytes.length - index * this.#rangeBytes;
    this.#bytesDone += bytes.length;
    this.#advance();
    this.#recordSoon();
    this.#options.onBytes(this.#bytesDone);
  }

  /** The whole file is received again, without ranges. All bytes that were received must be written before. */
  restart(): void {
    this.#marks[0] = 0;
    this.#bytesDone = 0;
    this.#options.onBytes(0);
  }

  /** Rejects with FetchError where `bytes` more would leave less than the reserve. */
  async checkRoom(bytes: number): Promise<void> {
    const { directory, reserveBytes } = this.#options;
    const { bavail, bsize } = await statfs(directory);
    if (bavail * bsize - reserveBytes < bytes) throw this.#noSpace(undefined, bavail * bsize, bytes);
  }

  /** The number of missing bytes. */
  get bytesLeft(): number {
    return this.content.sizeBytes - this.#bytesDone;
  }

  /** The file's SHA-256, once all bytes are written. The file may not survive a power cut yet. */
  async finish(signal: AbortSignal): Promise<string> {
    const digest = await this.#hash.digest(this.content.sizeBytes, signal);
    this.#isFinished = true;
    return digest;
  }

  /** Closes the file. Received bytes are kept for a later attempt. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#hash[Symbol.asyncDispose]();
    await this.#recording;
    // Where this fails, the last record stays.
    if (!this.#isFinished) await this.#record().catch(() => undefined);
    await this.#data.close();
  }

  #rangeOf(position: number): number {
    return Math.floor(position / this.#rangeBytes);
  }

  #writtenTo(index: number): number {
    return index * this.#rangeBytes + (this.#marks[index] ?? 0);
  }

  #endOf(index: number): number {
    return Math.min((index + 1) * this.#rangeBytes, this.content.sizeBytes);
  }

  #isWhole(index: number): boolean {
    return this.#writtenTo(index) === this.#endOf(index);
  }

  /** Hashes the complete part at the file's beginning. A file without ranges may begin again: it is hashed at its end. */
  #advance(): void {
    while (this.#first < this.#marks.length && this.#isWhole(this.#first)) this.#first += 1;
    if (this.#options.usesRanges) this.#hash.advance(Math.min(this.#writtenTo(this.#first), this.content.sizeBytes));
  }

  #recordSoon(): void {
    if (this.#recording !== undefined || performance.now() - this.#recordedAt < recordMs) return;
    this.#recording = this.#record()
      .catch((error: unknown) => void (this.#recordError = error))
      .finally(() => {
        this.#recording = undefined;
        this.#recordedAt = performance.now();
      });
  }

  async #record(): Promise<void> {
    const { directory, content, usesRanges } = this.#options;
    if (!usesRanges) return;
    const marks = [...this.#marks];
    await this.#data.datasync();
    await writePartial(directory, { content, marks });
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

/** The marks of an earlier attempt at the same content; undefined if the file begins anew. */
async function knownMarks(
  directory: string,
  dataPath: string,
  content: Content,
): Promise<readonly number[] | undefined> {
  const known = await readPartial(directory);
  if (known === undefined || !isSameContent(known.content, content)) return undefined;
  const last = known.marks.findLastIndex((mark) => mark > 0);
  const end = last * rangeBytes + (known.marks[last] ?? 0);
  const sizeBytes = (await stat(dataPath).catch(() => undefined))?.size ?? 0;
  return last >= 0 && end <= Math.min(sizeBytes, content.sizeBytes) ? known.marks : undefined;
}
