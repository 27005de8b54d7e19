import { ApiError } from "../../api/errors.ts";
import type { BufferBudget } from "../slots/budget.ts";
import { NotAStream, isEventStream, type AnswerHeaders, type AnswerSink } from "./answer.ts";

/** A reader that is further behind is cut (CONTRACT "Cold slots"). */
const behindLimitBytes = 16 * 1024 * 1024;

interface Reader {
  readonly sink: AnswerSink;
  /** Chunks that it has received, counted from the stream's first. */
  given: number;
  givenBytes: number;
  isWaiting: boolean;
}

export interface SharedAnswerOptions {
  readonly budget: BufferBudget;
  /** The number of readers, added to those of other streams. */
  readonly tally: { readers: number };
  readonly behindLimitBytes?: number;
  /** The last reader was cut. */
  readonly onDeserted: () => void;
}

/**
 * One engine's stream for several clients: one buffer, an offset per reader. Each gets the whole stream at its own
 * pace. The engine is paused only while no reader accepts more; a reader that falls too far behind the others is cut
 * alone.
 */
export class SharedAnswer implements AnswerSink {
  readonly #budget: BufferBudget;
  readonly #tally: { readers: number };
  readonly #behindLimitBytes: number;
  readonly #onDeserted: () => void;
  readonly #readers = new Set<Reader>();
  /** Chunks that some reader has not received yet. */
  #chunks: Buffer[] = [];
  /** Chunks that all readers have received, and that are dropped. */
  #dropped = 0;
  #totalBytes = 0;
  #isBegun = false;
  #ending: { readonly failure: ApiError | undefined; readonly events: string | undefined } | undefined;
  #onDrain: (() => void) | undefined;

  constructor({ budget, tally, behindLimitBytes: limit = behindLimitBytes, onDeserted }: SharedAnswerOptions) {
    this.#budget = budget;
    this.#tally = tally;
    this.#behindLimitBytes = limit;
    this.#onDeserted = onDeserted;
  }

  get readers(): number {
    return this.#readers.size;
  }

  get hasBegun(): boolean {
    if (this.#isBegun) return true;
    for (const { sink } of this.#readers) if (sink.hasBegun) return true;
    return false;
  }

  /** True while a new client still gets the stream from its start. */
  get isJoinable(): boolean {
    return !this.#isBegun && this.#ending === undefined;
  }

  /** Only while it is joinable. */
  join(sink: AnswerSink): void {
    this.#readers.add({ sink, given: 0, givenBytes: 0, isWaiting: false });
    this.#tally.readers += 1;
  }

  /** Returns the number of remaining readers. */
  leave(sink: AnswerSink): number {
    for (const reader of this.#readers) if (reader.sink === sink) this.#remove(reader);
    this.#drop();
    return this.#readers.size;
  }

  /** Refuses one reader, for its own reason, before the stream has begun. */
  dismiss(sink: AnswerSink, failure: ApiError): void {
    this.leave(sink);
    sink.refuse(failure);
  }

  begin(status: number, headers: AnswerHeaders): void {
    if (this.hasBegun && !isEventStream(headers["content-type"])) throw new NotAStream();
    this.#isBegun = true;
    this.#each((reader) => reader.sink.begin(status, headers));
  }

  write(bytes: Buffer): boolean {
    this.#chunks.push(bytes);
    this.#totalBytes += bytes.length;
    const isWithin = this.#budget.add(bytes.length);
    this.#each((reader) => this.#feed(reader));
    const wasCut = this.#cutBehind(isWithin ? this.#behindLimitBytes : 0);
    this.#drop();
    if (wasCut && this.#readers.size === 0) this.#onDeserted();
    return this.#canTakeMore();
  }

  onDrain(listener: () => void): void {
    this.#onDrain = listener;
    this.#drained();
  }

  end(bytes?: Buffer): void {
    if (bytes !== undefined) this.write(bytes);
    this.#finish(undefined);
  }

  refuse(failure: ApiError, events?: string): void {
    this.#finish(failure, events);
  }

  #finish(failure: ApiError | undefined, events?: string): void {
    this.#ending = { failure, events };
    this.#each((reader) => this.#feed(reader));
    this.#drop();
  }

  #feed(reader: Reader): void {
    while (!reader.isWaiting) {
      const chunk = this.#chunks[reader.given - this.#dropped];
      if (chunk === undefined) break;
      reader.given += 1;
      reader.givenBytes += chunk.length;
      if (reader.sink.write(chunk)) continue;
      reader.isWaiting = true;
      reader.sink.onDrain(() => {
        reader.isWaiting = false;
        if (!this.#readers.has(reader)) return;
        this.#feed(reader);
        this.#drop();
        this.#drained();
      });
    }
    if (this.#ending === undefined || reader.given < this.#dropped + this.#chunks.length) return;
    this.#remove(reader);
    if (this.#ending.failure === undefined) reader.sink.end();
    else reader.sink.refuse(this.#ending.failure, this.#ending.events);
  }

  #cutBehind(limitBytes: number): boolean {
    let wasCut = false;
    for (const reader of this.#readers) {
      const behind = this.#totalBytes - reader.givenBytes;
      if (behind <= limitBytes) continue;
      wasCut = true;
      this.#remove(reader);
      reader.sink.refuse(
        new ApiError("system.overloaded", { message: "this client reads too slowly: its stream was cut" }),
      );
    }
    return wasCut;
  }

  #remove(reader: Reader): void {
    this.#readers.delete(reader);
    this.#tally.readers -= 1;
  }

  #canTakeMore(): boolean {
    for (const { isWaiting } of this.#readers) if (!isWaiting) return true;
    return false;
  }

  #drained(): void {
    if (this.#onDrain === undefined || !this.#canTakeMore()) return;
    const listener = this.#onDrain;
    this.#onDrain = undefined;
    listener();
  }

  #drop(): void {
    let least = this.#dropped + this.#chunks.length;
    for (const { given } of this.#readers) least = Math.min(least, given);
    const gone = this.#chunks.splice(0, least - this.#dropped);
    this.#dropped = least;
    for (const chunk of gone) this.#budget.give(chunk.length);
  }

  #each(act: (reader: Reader) => void): void {
    for (const reader of this.#readers) act(reader);
  }
}
