import { randomUUID } from "node:crypto";
import { mkdir, open, rm, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { release } from "./release.ts";

export interface SpoolOptions {
  /** The directory of the file for bytes that do not fit in memory; made when it is needed. */
  readonly dir: string;
  readonly memoryBytes: number;
  /** Counts the bytes of files; `take` throws beyond the limit. */
  readonly disk: { take(bytes: number): void; give(bytes: number): void };
}

const readBytes = 65_536;

/**
 * Bytes on their way from one writer to one reader, in order. The writer never waits for the reader: unread bytes stay
 * in memory up to `memoryBytes`, and beyond that in an unlinked file.
 *
 *   write ─┬─ room in memory, nothing in the file ─▶ ring ─┐
 *          └─ otherwise ─────────────────────────▶ file ───┴─▶ read: the ring first, it is older
 *
 * Both ends copy into the spool's own memory, which is released on `close`: the bytes leave no garbage.
 */
export class Spool {
  readonly #dir: string;
  readonly #memoryBytes: number;
  readonly #disk: SpoolOptions["disk"];
  #diskBytes = 0;
  #ring: Buffer | undefined;
  #ringStart = 0;
  #ringLength = 0;
  /** Bytes of the ring that the reader returns with its next read. */
  #lent = 0;
  #isLent = false;
  #file: FileHandle | undefined;
  #fromFile: Buffer | undefined;
  #fileRead = 0;
  #fileEnd = 0;
  #isEnded = false;
  #isClosed = false;
  #failure: Error | undefined;
  #wake: () => void = () => undefined;
  #busy: Promise<unknown> = Promise.resolve();
  /** All bytes written so far. */
  sizeBytes = 0;

  constructor({ dir, memoryBytes, disk }: SpoolOptions) {
    this.#dir = dir;
    this.#memoryBytes = memoryBytes;
    this.#disk = disk;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /**
   * Accepts the bytes, at once or, where a promise is returned, once it resolves; until then the caller must not change
   * them and the next write must wait. Rejects with the file system's error. Ignored after `close`.
   */
  write(bytes: Buffer): Promise<void> | undefined {
    if (this.#isClosed || bytes.length === 0) return undefined;
    this.sizeBytes += bytes.length;
    if (this.#fileRead === this.#fileEnd && this.#ringLength + bytes.length <= this.#memoryBytes) {
      this.#keep(bytes);
      this.#wake();
      return undefined;
    }
    const written = this.#append(bytes);
    this.#busy = written.catch(() => undefined);
    return written;
  }

  /** The end of the stream. */
  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  /** The reader gets this error after the bytes so far. */
  fail(error: Error): void {
    this.#failure ??= error;
    this.#wake();
  }

  /**
   * The written bytes in order, until `end`. To be called once. Rejects with the error of `fail`. A chunk is valid
   * until the next read.
   */
  async *read(): AsyncGenerator<Buffer, void, undefined> {
    for (;;) {
      const { promise: woken, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      const next = await this.#take();
      this.#isLent = next !== undefined;
      if (next !== undefined) yield next;
      else if (this.#failure !== undefined) throw this.#failure;
      else if (this.#isEnded || this.#isClosed) return;
      else await woken;
    }
  }

  /** Releases memory and file; a reader ends. Idempotent. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#wake();
    await this.#busy;
    await this.#file?.close();
    this.#disk.give(this.#diskBytes);
    // A lent chunk may still be with the kernel, on its way to a socket.
    if (this.#isLent) return;
    if (this.#ring !== undefined) release(this.#ring);
    if (this.#fromFile !== undefined) release(this.#fromFile);
  }

  #keep(bytes: Buffer): void {
    this.#ring ??= Buffer.allocUnsafeSlow(this.#memoryBytes);
    const end = (this.#ringStart + this.#ringLength) % this.#memoryBytes;
    const copied = bytes.copy(this.#ring, end);
    if (copied < bytes.length) bytes.copy(this.#ring, 0, copied);
    this.#ringLength += bytes.length;
  }

  async #take(): Promise<Buffer | undefined> {
    this.#ringStart = (this.#ringStart + this.#lent) % this.#memoryBytes;
    this.#ringLength -= this.#lent;
    this.#lent = 0;
    if (this.#isClosed) return undefined;
    if (this.#ringLength > 0) {
      this.#lent = Math.min(this.#ringLength, this.#memoryBytes - this.#ringStart, readBytes);
      return this.#ring?.subarray(this.#ringStart, this.#ringStart + this.#lent);
    }
    if (this.#file === undefined || this.#fileRead === this.#fileEnd) return undefined;
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
    this.#disk.take(bytes.length);
    this.#diskBytes += bytes.length;
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
