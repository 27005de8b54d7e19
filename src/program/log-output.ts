import { write, writeSync } from "node:fs";
import { errorCode } from "../lib/error-code.ts";

/** After a write, lines that may wait do so for this time, until there are more of them: each write wakes a thread. */
const pauseMs = 100;
/** A write that would block is repeated after this time. */
const retryMs = 100;
/** How long the last lines wait for a reader when the process ends. */
const lastMs = 1000;

/** Lines that may wait do so no longer once there are so many bytes. */
const pieceBytes = 256 * 1024;

const nothing = Buffer.alloc(0);

export interface LogOutputOptions {
  readonly fd: number;
  /** The limit of buffered bytes; further lines are lost. */
  readonly limitBytes: number;
  /** Called when the output can be read again, with the number of lost lines. */
  readonly onLost: (lines: number) => void;
}

/**
 * Writes lines in their order without blocking the process. Lines that may wait are written together when they follow
 * each other closely: a tenth of a second later, once there are 256 KiB, or with a line that may not. A terminal or pipe that is gone (EIO, EPIPE) gets no more
 * lines and no wait: pino's own destination repeats the write for ever when the process ends, which kept every process
 * of a closed terminal alive.
 */
export class LogOutput {
  readonly #options: LogOutputOptions;
  #lines: string[] = [];
  /** What could not be written, until the next try. */
  #rest: Buffer = nothing;
  /** The bytes of the lines that wait, and of those that are being written. */
  #waitingBytes = 0;
  #lostLines = 0;
  /** A line that comes now waits for the write before it, or for the end of the pause after that write. */
  #isWriting = false;
  #pause: NodeJS.Timeout | undefined;
  #isGone = false;
  /** The last write has failed: lost lines are reported once one succeeds. */
  #hasFailed = false;
  /** A waiting line may not wait for the end of a pause. */
  #isUrgent = false;

  constructor(options: LogOutputOptions) {
    this.#options = options;
    process.on("exit", () => this.#writeLast());
  }

  write(line: string, mayWait = false): void {
    if (this.#isGone) return;
    const bytes = Buffer.byteLength(line);
    if (this.#waitingBytes + bytes > this.#options.limitBytes) this.#lostLines += 1;
    else {
      this.#lines.push(line);
      this.#waitingBytes += bytes;
    }
    if (!mayWait) this.#isUrgent = true;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isGone) return;
    if (this.#isWriting) {
      if (this.#pause !== undefined && (this.#isUrgent || this.#waitingBytes >= pieceBytes)) this.#next();
      return;
    }
    this.#isWriting = true;
    // Lines of the same turn are one write.
    queueMicrotask(() => this.#next());
  }

  #next(): void {
    clearTimeout(this.#pause);
    this.#pause = undefined;
    this.#isUrgent = false;
    const piece = this.#take();
    if (piece.length === 0) {
      this.#isWriting = false;
      const lost = this.#lostLines;
      if (lost === 0 || this.#hasFailed) return;
      this.#lostLines = 0;
      this.#options.onLost(lost);
    } else this.#write(piece);
  }

  #write(piece: Buffer): void {
    write(this.#options.fd, piece, (error, written) => {
      if (error === null) {
        this.#hasFailed = false;
        this.#waitingBytes -= written;
        if (written < piece.length) {
          this.#write(piece.subarray(written));
          return;
        }
        if (this.#isUrgent || this.#waitingBytes >= pieceBytes || this.#lostLines > 0) this.#next();
        else this.#pause = setTimeout(() => this.#next(), pauseMs).unref();
      } else if (errorCode(error) === "EAGAIN") {
        this.#rest = piece;
        setTimeout(() => {
          this.#rest = nothing;
          this.#write(piece);
        }, retryMs);
      } else if (["EIO", "EPIPE", "EBADF"].includes(errorCode(error) ?? "")) this.#giveUp();
      else {
        // A full disk may have room for the next write.
        this.#hasFailed = true;
        this.#waitingBytes -= piece.length;
        this.#lostLines += piece.toString("latin1").split("\n").length - 1;
        setTimeout(() => this.#next(), retryMs);
      }
    });
  }

  #giveUp(): void {
    this.#isGone = true;
    this.#lines = [];
    this.#waitingBytes = 0;
  }

  #take(): Buffer {
    const piece = Buffer.from(this.#lines.join(""));
    this.#lines = [];
    return piece;
  }

  /** A write that the thread pool has begun counts as done. */
  #writeLast(): void {
    if (this.#isGone) return;
    const until = performance.now() + lastMs;
    for (let rest = Buffer.concat([this.#rest, this.#take()]); rest.length > 0;) {
      try {
        rest = rest.subarray(writeSync(this.#options.fd, rest));
      } catch (error) {
        if (errorCode(error) !== "EAGAIN" || performance.now() > until) return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
      }
    }
  }
}
