import { randomUUID } from "node:crypto";
import { mkdir, open, rm, type FileHandle } from "node:fs/promises";
import { join } from "node:path";

export interface SpoolOptions {
  /** Where the file goes that holds what memory does not; made when it is needed. */
  readonly dir: string;
  readonly memoryBytes?: number;
}

const readBytes = 65_536;

/**
 * Bytes on their way from one writer to one reader, in order. The writer never waits for the reader: what the reader
 * has not taken yet stays in memory up to `memoryBytes`, and beyond that in a file that has no name any more.
 *
 *   write ─┬─ room in memory, nothing in the file ─▶ memory ─┐
 *          └─ otherwise ───────────────────────────▶ file ───┴─▶ read: memory first, it is older
 */
export class Spool {
  readonly #dir: string;
  readonly #memoryBytes: number;
  readonly #memory: Buffer[] = [];
  #inMemory = 0;
  #file: FileHandle | undefined;
  #fromFile: Buffer | undefined;
  #fileRead = 0;
  #fileEnd = 0;
  #isEnded = false;
  #isClosed = false;
  #failure: Error | undefined;
  #wake: () => void = () => undefined;
  #busy: Promise<unknown> = Promise.resolve();
  /** All that was written so far. */
  sizeBytes = 0;

  constructor({ dir, memoryBytes = 262_144 }: SpoolOptions) {
    this.#dir = dir;
    this.#memoryBytes = memoryBytes;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /**
   * Takes the bytes, at once or, where a promise is given, once it resolves; the next write must wait for that.
   * Rejects as the file system does. Nothing after `close`.
   */
  write(bytes: Buffer): Promise<void> | undefined {
    if (this.#isClosed) return undefined;
    this.sizeBytes += bytes.length;
    if (this.#fileRead === this.#fileEnd && this.#inMemory + bytes.length <= this.#memoryBytes) {
      this.#memory.push(bytes);
      this.#inMemory += bytes.length;
      this.#wake();
      return undefined;
    }
    const written = this.#append(bytes);
    this.#busy = written.catch(() => undefined);
    return written;
  }

  /** Nothing more comes. */
  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  /** The reader gets this error once it has read so far. */
  fail(error: Error): void {
    this.#failure ??= error;
    this.#wake();
  }

  /**
   * What was written, as it comes, until `end`. To be called once. Rejects with what `fail` was given. A chunk is valid
   * until the next is asked for: those from the file share one buffer, or a large upload would leave its whole size
   * behind as garbage.
   */
  async *read(): AsyncGenerator<Buffer, void, undefined> {
    for (;;) {
      const { promise: woken, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      const next = await this.#take();
      if (next !== undefined) yield next;
      else if (this.#failure !== undefined) throw this.#failure;
      else if (this.#isEnded || this.#isClosed) return;
      else await woken;
    }
  }

  /** Frees memory and file; a reader ends. Idempotent. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#memory.length = 0;
    this.#inMemory = 0;
    this.#wake();
    await this.#busy;
    await this.#file?.close();
  }

  async #take(): Promise<Buffer | undefined> {
    const first = this.#memory.shift();
    if (first !== undefined) {
      this.#inMemory -= first.length;
      return first;
    }
    if (this.#isClosed || this.#file === undefined || this.#fileRead === this.#fileEnd) return undefined;
    this.#fromFile ??= Buffer.allocUnsafeSlow(readBytes);
    const length = Math.min(readBytes, this.#fileEnd - this.#fileRead);
    const reading = this.#file.read(this.#fromFile, 0, length, this.#fileRead);
    this.#busy = Promise.allSettled([this.#busy, reading]);
    const { bytesRead } = await reading;
    if (bytesRead === 0) throw new Error("the spooled file is shorter than what was written to it");
    this.#fileRead += bytesRead;
    return this.#fromFile.subarray(0, bytesRead);
  }

  async #append(bytes: Buffer): Promise<void> {
    if (this.#file === undefined) {
      await mkdir(this.#dir, { recursive: true });
      const path = join(this.#dir, `.upload.${randomUUID()}.tmp`);
      this.#file = await open(path, "wx+", 0o600);
      await rm(path, { force: true });
    }
    for (let at = 0; at < bytes.length;) {
      const { bytesWritten } = await this.#file.write(bytes, at, bytes.length - at, this.#fileEnd + at);
      at += bytesWritten;
    }
    this.#fileEnd += bytes.length;
    this.#wake();
  }
}
