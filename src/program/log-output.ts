import { write, writeSync } from "node:fs";
import { errorCode } from "../lib/error-code.ts";
import { LinePieces, pieceBytes, type LateLine } from "./line-pieces.ts";

/** After a write, lines that may wait do so for this time, until there are more of them: each write wakes a thread. */
const pauseMs = 100;
/** A write that would block is repeated after this time. */
const retryMs = 100;
/** How long the last lines wait for a reader when the process ends. */
const lastMs = 1000;

/** Late lines that wait at most: what each of them is made from stays in memory. */
const lateLimit = 128;

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
  readonly #waiting = new LinePieces();
  /** These come after the lines above. */
  #late: LateLine[] = [];
  /** The bytes of the lines that wait in that form, and of those that are being written. */
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
    this.#makeLate();
    this.#add(line);
    if (!mayWait) this.#isUrgent = true;
    this.#schedule();
  }

  /** As `write` of a line that may wait. */
  writeLate(line: LateLine): void {
    if (this.#isGone) return;
    this.#late.push(line);
    if (this.#late.length >= lateLimit) this.#makeLate();
    this.#schedule();
  }

  #makeLate(): void {
    if (this.#late.length === 0) return;
    const lines = this.#late;
    this.#late = [];
    if (this.#isGone) return;
    for (const line of lines) {
      const bytes = this.#waiting.addLate(line, this.#options.limitBytes - this.#waitingBytes);
      if (bytes === undefined) this.#lostLines += 1;
      else this.#waitingBytes += bytes;
    }
  }

  #add(line: string): void {
    if (this.#isGone) return;
    const room = this.#options.limitBytes - this.#waitingBytes;
    // At most three bytes for each UTF-16 unit: the exact number costs a pass over the text.
    if (line.length * 3 <= room || Buffer.byteLength(line) <= room) this.#waitingBytes += this.#waiting.add(line);
    else this.#lostLines += 1;
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
    this.#makeLate();
    const piece = this.#waiting.take();
    if (this.#waiting.isEmpty) this.#isUrgent = false;
    if (piece === undefined) {
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
        this.#waiting.giveBack(piece);
        if (this.#isUrgent || this.#waitingBytes >= pieceBytes || this.#lostLines > 0) this.#next();
        else this.#pause = setTimeout(() => this.#next(), pauseMs).unref();
      } else if (errorCode(error) === "EAGAIN") setTimeout(() => this.#write(piece), retryMs);
      else if (["EIO", "EPIPE", "EBADF"].includes(errorCode(error) ?? "")) this.#giveUp();
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
    this.#late = [];
    this.#waiting.clear();
    this.#waitingBytes = 0;
  }

  /** A write that the thread pool has begun counts as done. */
  #writeLast(): void {
    if (this.#isGone) return;
    this.#makeLate();
    const until = performance.now() + lastMs;
    for (let rest = this.#waiting.take(); rest !== undefined; rest = rest.length > 0 ? rest : this.#waiting.take()) {
      try {
        rest = rest.subarray(writeSync(this.#options.fd, rest));
      } catch (error) {
        if (errorCode(error) !== "EAGAIN" || performance.now() > until) return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
      }
    }
  }
}
