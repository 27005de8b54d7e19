import type { Logger } from "pino";
import type { ApiError } from "../../api/errors.ts";
import { AccessLine } from "./access-line.ts";
import type { EndedRequest } from "./request-record.ts";

/**
 * One line per request, without any text of request or answer; and each internal failure, with its cause. The lines have
 * pino's form, but pino does not write them: it needs as much time for a line as the rest of the gateway's telemetry.
 */
export class AccessLog {
  readonly #log: Logger;
  readonly #write: ((line: AccessLine) => void) | undefined;
  readonly #part: number;

  /**
   * `write` gets the lines, where the log has the level "info"; undefined: there are none. `part`: how many of the
   * requests that were answered have a line; every other request has.
   */
  constructor(log: Logger, write: ((line: AccessLine) => void) | undefined, part = 1) {
    this.#log = log;
    this.#write = log.isLevelEnabled("info") ? write : undefined;
    this.#part = part;
  }

  /** A client gets no details of an internal failure: they are logged here. */
  failed(failure: ApiError, requestId: string): void {
    if (failure.code !== "system.internal") return;
    this.#log.error({ err: failure.cause ?? failure, requestId }, "request failed");
  }

  /** The answer was sent or has failed, or the client disconnected: 499. */
  closed(request: EndedRequest): void {
    if (this.#write === undefined) return;
    if (request.code < 400 && request.failure === undefined && this.#part < 1 && Math.random() >= this.#part) return;
    this.#write(new AccessLine(request));
  }
}
