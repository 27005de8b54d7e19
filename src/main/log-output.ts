import { write, writeSync } from "node:fs";
import { errorCode } from "../lib/error-code.ts";

/** How much of a log is written at once. */
const pieceBytes = 64 * 1024;
/** A reader that does not read is tried again after this. */
const retryMs = 100;
/** How long the last lines may wait for such a reader when the process ends. */
const lastMs = 1000;

export interface LogOutputOptions {
  readonly fd: number;
  /** What may wait; what comes then is lost. */
  readonly limitBytes: number;
  /** Somebody reads again: so many lines are lost. */
  readonly onLost: (lines: number) => void;
}

/**
 * Writes lines in their order without holding up the process. A terminal or pipe that is gone (EIO, EPIPE) takes no more
 * lines, and nobody waits for it: pino's own destination tries for ever when the process ends, which kept every process
 * of a closed terminal alive.
 */
export class LogOutput {
  readonly #options: LogOutputOptions;
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #lostLines = 0;
  #isWriting = false;
  #isGone = false;

  constructor(options: LogOutputOptions) {
    this.#options = options;
    process.on("exit", () => this.#writeLast());
  }

  write(line: string): void {
    if (this.#isGone) return;
    const bytes = Buffer.from(line);
    if (this.#waitingBytes + bytes.length > this.#options.limitBytes) {
      this.#lostLines += 1;
      return;
    }
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    if (this.#isWriting) return;
    this.#isWriting = true;
    // Lines of the same turn are one piece.
    queueMicrotask(() => this.#next());
  }

  #next(): void {
    const piece = this.#take();
    if (piece === undefined) {
      this.#isWriting = false;
      const lost = this.#lostLines;
      this.#lostLines = 0;
      if (lost > 0) this.#options.onLost(lost);
    } else this.#write(piece);
  }

  #write(piece: Buffer): void {
    write(this.#options.fd, piece, (error, written) => {
      if (error === null) {
        this.#waitingBytes -= written;
        if (written < piece.length) this.#write(piece.subarray(written));
        else this.#next();
      } else if (errorCode(error) === "EAGAIN") setTimeout(() => this.#write(piece), retryMs);
      else if (["EIO", "EPIPE", "EBADF"].includes(errorCode(error) ?? "")) this.#giveUp();
      else {
        // A full disk may have room for the next.
        this.#waitingBytes -= piece.length;
        this.#lostLines += piece.toString("latin1").split("\n").length - 1;
        setTimeout(() => this.#next(), retryMs);
      }
    });
  }

  #take(): Buffer | undefined {
    let size = 0;
    let count = 0;
    for (const line of this.#waiting) {
      if (count > 0 && size + line.length > pieceBytes) break;
      size += line.length;
      count += 1;
    }
    return count === 0 ? undefined : Buffer.concat(this.#waiting.splice(0, count), size);
  }

  #giveUp(): void {
    this.#isGone = true;
    this.#waiting.length = 0;
    this.#waitingBytes = 0;
  }

  /** What an operation of the pool is writing just then is out already, or as good as that. */
  #writeLast(): void {
    if (this.#isGone) return;
    const until = performance.now() + lastMs;
    let rest = Buffer.concat(this.#waiting.splice(0));
    while (rest.length > 0) {
      try {
        rest = rest.subarray(writeSync(this.#options.fd, rest));
      } catch (error) {
        if (errorCode(error) !== "EAGAIN" || performance.now() > until) return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
      }
    }
  }
}
