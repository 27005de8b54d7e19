import type { Logger } from "pino";
import type { ApiError } from "../api/errors.ts";

/**
 * One line per request, without a word of what was asked or answered; and whatever is our own fault, with its cause.
 */
export class AccessLog {
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** A client learns no more of an internal failure than that it was one: here is the rest. */
  failed(failure: ApiError, requestId: string): void {
    if (failure.code !== "system.internal") return;
    this.#log.error({ err: failure.cause ?? failure, requestId }, "request failed");
  }

  /** All was sent, or the client left: 499. */
  closed(request: {
    readonly requestId: string;
    readonly path: string;
    readonly slot: string;
    readonly code: number;
    readonly seconds: number;
    readonly failure: ApiError | undefined;
  }): void {
    if (!this.#log.isLevelEnabled("info")) return;
    const { requestId, path, slot, code, seconds } = request;
    const failure = request.failure?.code;
    this.#log.info(
      { requestId, slot, status: code, ms: Math.round(seconds * 1000), ...(failure === undefined ? {} : { failure }) },
      `${path} ${slot} ${code}${failure === undefined ? "" : ` ${failure}`}`,
    );
  }
}
