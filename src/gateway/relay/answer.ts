import type { ServerResponse } from "node:http";
import type { ApiError } from "../../api/errors.ts";
import { sendError } from "../answer.ts";
import { plainErrors, type ErrorForm } from "./error-form.ts";

/** Where a relay puts an answer: one client, or all readers of a shared stream. */
export interface AnswerSink {
  /** The client has a status already. */
  readonly hasBegun: boolean;
  /** `headers` without those that every answer carries. */
  begin(status: number, headers: Readonly<Record<string, string | number>>): void;
  /** False when the rest should wait for `onDrain`. */
  write(bytes: Buffer): boolean;
  onDrain(listener: () => void): void;
  end(bytes?: Buffer): void;
  /** Ends with the failure, told as well as is still possible: envelope, last event, or a cut connection. */
  refuse(failure: ApiError): void;
}

/** Where failures go, with what no client may know. */
interface FailureLog {
  failed(failure: ApiError, requestId: string): void;
}

/** How much may wait for a slow reader before the engine is paused. */
const highWaterBytes = 65_536;
/** Up to this size one copy costs less than a write in parts. */
const copiedBytes = 16_384;

/** The answer to one client. Nothing else writes to its response. */
export class Answer implements AnswerSink {
  readonly #response: ServerResponse;
  readonly #requestId: string;
  readonly #errors: ErrorForm;
  readonly #log: FailureLog | undefined;
  #isStream = false;
  #isHeld = false;
  /** Why the client did not get what it asked for. */
  failure: ApiError | undefined;

  constructor(response: ServerResponse, requestId: string, errors: ErrorForm = plainErrors, log?: FailureLog) {
    this.#response = response;
    this.#requestId = requestId;
    this.#errors = errors;
    this.#log = log;
  }

  get hasBegun(): boolean {
    return this.#response.headersSent;
  }

  /** The client is gone, or has all it will get. */
  get isOver(): boolean {
    return this.#response.writableEnded || this.#response.destroyed;
  }

  /** Begins the stream of a client that waits, so that neither it nor a proxy gives up. */
  hold(): void {
    if (this.hasBegun || this.isOver) return;
    this.begin(200, { "content-type": "text/event-stream", ...streamHeaders });
    this.#response.flushHeaders();
    this.#isHeld = true;
  }

  /** A line that every reader of event streams skips. */
  comment(text: string): void {
    if (this.#isStream && !this.isOver) this.#response.write(`: ${text}\n\n`);
  }

  begin(status: number, headers: Readonly<Record<string, string | number>>): void {
    const isStream = String(headers["content-type"]).startsWith("text/event-stream");
    if (this.#isHeld) {
      if (!isStream) throw new HeldAnswer();
      return;
    }
    this.#isStream = isStream;
    this.#response.writeHead(status, {
      ...headers,
      "x-request-id": this.#requestId,
      "x-content-type-options": "nosniff",
      ...(isStream ? streamHeaders : {}),
    });
  }

  write(bytes: Buffer): boolean {
    return this.#response.write(bytes) || this.#response.writableLength < highWaterBytes;
  }

  onDrain(listener: () => void): void {
    this.#response.once("drain", listener);
  }

  end(bytes?: Buffer): void {
    if (bytes === undefined) this.#response.end();
    // Node sends a text in one piece with the head, and a buffer apart from it.
    else if (bytes.length <= copiedBytes) this.#response.end(bytes.toString("latin1"), "latin1");
    else this.#response.end(bytes);
  }

  refuse(failure: ApiError): void {
    // Also of one whose client has left: somebody has to mend it.
    this.#log?.failed(failure, this.#requestId);
    if (this.isOver) return;
    this.failure = failure;
    if (!this.hasBegun) sendError(this.#response, failure, this.#requestId, this.#errors.body(failure));
    else if (this.#isStream) this.#response.end(this.#errors.event(failure));
    // What is no event stream cannot carry an error any more: it must not look whole.
    else this.#response.destroy();
  }
}

/** What is no stream came for a client that was promised one. */
export class HeldAnswer extends Error {
  override readonly name = "HeldAnswer";
}

const streamHeaders = { "cache-control": "no-cache", "x-accel-buffering": "no" } as const;
