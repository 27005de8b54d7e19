import type { IncomingMessage } from "node:http";
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import { ApiError } from "../../api/errors.ts";
import { atEndOfTurn, type Flushable } from "../../lib/end-of-turn.ts";
import { GatheredBytes } from "../../lib/gathered-bytes.ts";
import { release } from "../../lib/release.ts";
import type { Charge } from "../slots/budget.ts";

/** How long the gateway reads what it has refused, so that its sender reads the answer. */
export const lingerMs = 10_000;
/** A sender that sends nothing for this long within its body is gone, or an attacker. */
export const idleTimeoutMs = 30_000;

/** The limits of a request's body. */
export interface BodyLimits {
  readonly bodyBytes: number;
  /** The bytes of the request count here, for every part of the gateway that keeps them; its owner ends it. */
  readonly charge: Charge;
}

/**
 * The whole body in one buffer, without a copy if it arrived in one piece. A Content-Length beyond the limit is refused
 * before a byte is read. Received bytes are charged, and stay charged when the body is complete. Throws ApiError
 * `dispatch.payload_too_large`; `system.overloaded` where the budget is used up; `dispatch.invalid_request` when the
 * client stops half-way, with status 408 when it sends nothing for too long: nothing is charged then, and the memory is
 * released at once.
 */
export function readRequestBody(
  request: IncomingMessage,
  limits: BodyLimits,
  idleMs: number = idleTimeoutMs,
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
 * A body that is being read. The request holds listeners as long as the answer, which may be a stream of hours: once
 * the body is settled, nothing here refers to the body any more, nor to a promise that holds it.
 */
class Reading implements Flushable {
  readonly #request: IncomingMessage;
  readonly #limits: BodyLimits;
  readonly #declared: number;
  #body: PromiseWithResolvers<Buffer> | undefined;
  readonly #gathered = new GatheredBytes();
  #idleMs = 0;
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(request: IncomingMessage, limits: BodyLimits, declared: number, body: PromiseWithResolvers<Buffer>) {
    this.#request = request;
    this.#limits = limits;
    this.#declared = declared;
    this.#body = body;
  }

  expectWithin(idleMs: number): void {
    this.#idleMs = idleMs;
    atEndOfTurn(this);
  }

  /** Most bodies have arrived with their header by the end of the turn, and need no timer. */
  flush(): void {
    if (this.#body === undefined) return;
    this.#idleTimer = setTimeout(() => {
      this.#refuse(tooSlow());
    }, this.#idleMs);
    this.#idleTimer.unref();
  }

  add(chunk: Buffer): void {
    if (this.#body === undefined) return;
    this.#idleTimer?.refresh();
    const { bodyBytes, charge } = this.#limits;
    const size = this.#gathered.size + chunk.length;
    if (size > bodyBytes) {
      release(chunk);
      this.#refuse(tooLarge(bodyBytes));
      return;
    }
    try {
      if (chunk.length === this.#declared) charge.takeWhole(chunk.length);
      else charge.take(chunk.length);
    } catch (error) {
      release(chunk);
      this.#refuse(error);
      return;
    }
    // Hundreds of copied chunks would otherwise stay until garbage collection.
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
    // Every request is closed in the end, and an error costs more than reading the rest of its body.
    if (this.#body === undefined) return;
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
    clearTimeout(this.#idleTimer);
    return body;
  }
}

/**
 * Reads and drops the rest. Closing now would reset the connection, and a client that writes everything before it reads
 * could lose the answer. A second call does nothing.
 */
export function discard(request: IncomingMessage): void {
  if (request.destroyed || request.listeners("data").includes(release)) return;
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

/** Each piece has its own memory, which can be released once the piece is copied. */
const decoding = { chunkSize: 65_536 };

const decoders = {
  gzip: () => createGunzip(decoding),
  "x-gzip": () => createGunzip(decoding),
  deflate: () => createInflate(decoding),
  br: () => createBrotliDecompress(decoding),
  zstd: () => createZstdDecompress(decoding),
} as const;

/**
 * The body before its `content-encoding`; at most `bodyBytes`, for any packed size. It replaces the packed body in the
 * charge. Rejects with ApiError `dispatch.unsupported_media_type`, `dispatch.payload_too_large`, `system.overloaded` or
 * `dispatch.invalid_request`.
 */
export async function decodeBody(
  request: Pick<IncomingMessage, "headers">,
  body: Buffer,
  { bodyBytes, charge }: BodyLimits,
): Promise<Buffer> {
  const encoding = request.headers["content-encoding"]?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity" || encoding === "") return body;
  if (!isKnown(encoding)) {
    throw new ApiError("dispatch.unsupported_media_type", {
      message: `the content encoding is none of ${Object.keys(decoders).join(", ")}`,
    });
  }
  const decoder = decoders[encoding]();
  const pieces: AsyncIterable<Buffer> = decoder;
  const gathered = new GatheredBytes();
  decoder.end(body);
  try {
    for await (const piece of pieces) {
      if (gathered.size + piece.length > bodyBytes) {
        const message = `the body is larger than ${bodyBytes} bytes once it is unpacked`;
        throw new ApiError("dispatch.payload_too_large", { message });
      }
      charge.take(piece.length);
      if (gathered.add(piece)) release(piece);
    }
    const whole = gathered.take();
    charge.reduceTo(whole.length);
    charge.holds(whole);
    return whole;
  } catch (error) {
    gathered.clear();
    charge.end();
    if (error instanceof ApiError) throw error;
    throw new ApiError("dispatch.invalid_request", { message: `the body is not valid ${encoding}` });
  }
}

function isKnown(encoding: string): encoding is keyof typeof decoders {
  return Object.hasOwn(decoders, encoding);
}
