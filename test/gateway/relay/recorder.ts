import type { ApiError } from "../../../src/api/errors.ts";
import { NotAStream, isEventStream, type AnswerHeaders, type AnswerSink } from "../../../src/gateway/relay/answer.ts";

/** A DOUBLE of a client's answer that writes down what it is told, and takes as many bytes as it is let. */
export class RecorderSink implements AnswerSink {
  readonly chunks: Buffer[] = [];
  readonly calls: string[] = [];
  status = 0;
  headers: AnswerHeaders | undefined;
  failure: ApiError | undefined;
  /** Its client was promised a stream. */
  isHeld = false;
  /** How many more bytes it takes before it asks to wait. */
  room: number;
  #hasBegun = false;
  #isOver = false;
  #onDrain: (() => void) | undefined;

  constructor(room = Infinity) {
    this.room = room;
  }

  get hasBegun(): boolean {
    return this.#hasBegun || this.isHeld;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get isWaiting(): boolean {
    return this.#onDrain !== undefined;
  }

  get text(): string {
    return Buffer.concat(this.chunks).toString();
  }

  begin(status: number, headers: AnswerHeaders): void {
    if (this.isHeld && !isEventStream(headers["content-type"])) throw new NotAStream();
    if (this.#hasBegun) throw new Error("begun twice");
    this.#hasBegun = true;
    this.calls.push("begin");
    this.status = status;
    this.headers = headers;
  }

  write(bytes: Buffer): boolean {
    if (this.#isOver) throw new Error("written to after its end");
    if (this.#onDrain !== undefined) throw new Error("written to while it waits");
    this.chunks.push(bytes);
    this.room -= bytes.length;
    return this.room > 0;
  }

  onDrain(listener: () => void): void {
    if (this.#onDrain !== undefined) throw new Error("asked twice");
    this.#onDrain = listener;
  }

  /** Its client has read: there is room for more. */
  drain(room = Infinity): void {
    this.room = room;
    const listener = this.#onDrain;
    this.#onDrain = undefined;
    listener?.();
  }

  end(bytes?: Buffer): void {
    this.#finish("end");
    if (bytes !== undefined) this.chunks.push(bytes);
  }

  refuse(failure: ApiError): void {
    this.#finish(`refuse ${failure.code}`);
    this.failure = failure;
  }

  #finish(call: string): void {
    if (this.#isOver) throw new Error(`${call} after its end`);
    this.#isOver = true;
    this.calls.push(call);
  }
}
