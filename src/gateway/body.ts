import type { IncomingMessage } from "node:http";
import { ApiError } from "../api/errors.ts";
import { GatheredBytes } from "../lib/gathered-bytes.ts";
import { release } from "../lib/release.ts";
import type { Charge } from "./admission/charge.ts";

/** How long a refused upload is still read, so that its sender gets to the answer. */
const lingerMs = 10_000;
/** A sender that is silent this long in the middle of its body has gone, or means harm. */
export const silenceMs = 30_000;
/** A body of this size that came in one piece costs no more than its connection: it is counted only while it waits. */
const smallBytes = 16_384;

/** How much a request may send. */
export interface BodyLimits {
  readonly bodyBytes: number;
  /** What the request keeps is counted there, by whoever keeps it; its owner ends it. */
  readonly charge: Charge;
}

/**
 * The whole body, in one buffer without copying where it came in one piece. A Content-Length beyond the limit is
 * refused before a byte is read. What has come is charged, and stays so when the body is whole. Throws ApiError
 * `dispatch.payload_too_large`; `system.overloaded` where the budget is used up; `dispatch.invalid_request` when the
 * client stops half-way, with status 408 when it falls silent: nothing is charged then, and the memory is free at once.
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
  readonly #gathered = new GatheredBytes();
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
    const { bodyBytes, charge } = this.#limits;
    const size = this.#gathered.size + chunk.length;
    if (size > bodyBytes) {
      release(chunk);
      this.#refuse(tooLarge(bodyBytes));
      return;
    }
    const isSmall = chunk.length === this.#declared && chunk.length <= smallBytes;
    if (!isSmall) {
      try {
        charge.take(chunk.length);
      } catch (error) {
        release(chunk);
        this.#refuse(error);
        return;
      }
    }
    // Hundreds of copied chunks would lie about until somebody collects them.
    if (this.#gathered.add(chunk)) release(chunk);
  }

  end(): void {
    const body = this.#settle();
    if (body === undefined) return;
    const whole = this.#gathered.take();
    this.#limits.charge.holds(whole);
    body.resolve(whole);
  }

  break(): void {
    this.#fail(new ApiError("dispatch.invalid_request", { message: "the body ended early" }));
  }

  #refuse(failure: unknown): void {
    this.#fail(failure);
    discard(this.#request);
  }

  #fail(failure: unknown): void {
    const body = this.#settle();
    if (body === undefined) return;
    this.#gathered.clear();
    this.#limits.charge.end();
    body.reject(failure);
  }

  #settle(): PromiseWithResolvers<Buffer> | undefined {
    const body = this.#body;
    if (body === undefined) return undefined;
    this.#body = undefined;
    clearTimeout(this.#silence);
    return body;
  }
}

/**
 * Reads on and keeps nothing. Closing now would reset the connection and could take the answer away from a client
 * that writes everything before it reads.
 */
export function discard(request: IncomingMessage): void {
  request.on("error", () => undefined);
  request.on("data", release);
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
