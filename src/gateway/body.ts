import type { IncomingMessage } from "node:http";
import { ApiError } from "../api/errors.ts";
import type { BufferBudget } from "./admission/budget.ts";

/** How long a refused upload is still read, so that its sender gets to the answer. */
const lingerMs = 10_000;
/** A sender that is silent this long in the middle of its body has gone, or means harm. */
export const silenceMs = 30_000;

/** How much a request may send. */
export interface BodyLimits {
  readonly bodyBytes: number;
  /** What bodies that are still coming take together. */
  readonly budget: BufferBudget;
}

/**
 * The whole body, in one buffer without copying where it came in one piece. A Content-Length beyond the limit is
 * refused before a byte is read. What has come is counted in the budget until the body is whole. Throws ApiError
 * `dispatch.payload_too_large`; `system.overloaded` where the budget is used up; `dispatch.invalid_request` when the
 * client stops half-way, with status 408 when it falls silent.
 */
export function readRequestBody(
  request: IncomingMessage,
  limits: BodyLimits,
  idleMs: number = silenceMs,
): Promise<Buffer> {
  const declared = Number(request.headers["content-length"] ?? 0);
  if (declared > limits.bodyBytes) {
    discard(request);
    return Promise.reject(tooLarge(limits.bodyBytes));
  }
  const body = Promise.withResolvers<Buffer>();
  const reading = new Reading(request, limits, declared, body);
  reading.expectWithin(idleMs);
  request.on("data", (chunk: Buffer) => reading.add(chunk));
  request.on("end", () => reading.end());
  const broken = (): void => reading.break();
  request.on("error", broken);
  request.on("close", broken);
  return body.promise;
}

/**
 * A body on its way. Its request hears of it as long as there is an answer, which may be a stream of hours: once it is
 * settled, nothing here leads to the body any more, nor to a promise that holds it.
 */
class Reading {
  readonly #request: IncomingMessage;
  readonly #limits: BodyLimits;
  readonly #declared: number;
  #body: PromiseWithResolvers<Buffer> | undefined;
  #chunks: Buffer[] = [];
  #size = 0;
  #counted = 0;
  #silence: NodeJS.Timeout | undefined;

  constructor(request: IncomingMessage, limits: BodyLimits, declared: number, body: PromiseWithResolvers<Buffer>) {
    this.#request = request;
    this.#limits = limits;
    this.#declared = declared;
    this.#body = body;
  }

  expectWithin(idleMs: number): void {
    this.#silence = setTimeout(() => {
      this.#refuse(tooSlow());
    }, idleMs);
    this.#silence.unref();
  }

  add(chunk: Buffer): void {
    if (this.#body === undefined) return;
    this.#silence?.refresh();
    this.#size += chunk.length;
    const { bodyBytes, budget } = this.#limits;
    if (this.#size > bodyBytes) {
      this.#refuse(tooLarge(bodyBytes));
      return;
    }
    // What is whole waits for nobody: most bodies come in one piece, and are not counted here.
    if (this.#size !== this.#declared) {
      try {
        budget.take(chunk.length);
      } catch (error) {
        this.#refuse(error);
        return;
      }
      this.#counted += chunk.length;
    }
    this.#chunks.push(chunk);
  }

  end(): void {
    const chunks = this.#chunks;
    const [only] = chunks;
    const whole = chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, this.#size);
    this.#settle()?.resolve(whole);
  }

  break(): void {
    this.#settle()?.reject(new ApiError("dispatch.invalid_request", { message: "the body ended early" }));
  }

  #refuse(failure: unknown): void {
    this.#settle()?.reject(failure);
    discard(this.#request);
  }

  #settle(): PromiseWithResolvers<Buffer> | undefined {
    const body = this.#body;
    if (body === undefined) return undefined;
    this.#body = undefined;
    this.#chunks = [];
    clearTimeout(this.#silence);
    if (this.#counted > 0) this.#limits.budget.give(this.#counted);
    return body;
  }
}

/**
 * Reads on and keeps nothing. Closing now would reset the connection and could take the answer away from a client
 * that writes everything before it reads.
 */
export function discard(request: IncomingMessage): void {
  request.on("error", () => undefined);
  request.resume();
  const limit = setTimeout(() => request.destroy(), lingerMs);
  limit.unref();
  request.once("close", () => clearTimeout(limit));
}

/** `dispatch.invalid_request` with status 408. */
export function tooSlow(): ApiError {
  return new ApiError("dispatch.invalid_request", { status: 408, message: "the body came too slowly" });
}

/** `dispatch.payload_too_large`. */
export function tooLarge(limitBytes: number): ApiError {
  return new ApiError("dispatch.payload_too_large", { message: `the body is larger than ${limitBytes} bytes` });
}
