import type { Logger } from "pino";
import type { ApiError } from "../../api/errors.ts";
import type { EndedRequest } from "./request-record.ts";

export interface AccessLogOptions {
  /** For internal failures. */
  readonly log: Logger;
  /** Where each request has its line, at the level "info"; undefined: none is written. */
  readonly lines: Logger | undefined;
  /** How many of the requests that were answered have a line; every other request has. Absent: all. */
  readonly part?: number;
}

/** One line per request, without any text of request or answer; and each internal failure, with its cause. */
export class AccessLog {
  readonly #log: Logger;
  readonly #lines: Logger | undefined;
  readonly #part: number;

  constructor({ log, lines, part = 1 }: AccessLogOptions) {
    this.#log = log;
    this.#lines = lines?.isLevelEnabled("info") === true ? lines : undefined;
    this.#part = part;
  }

  /** A client gets no details of an internal failure: they are logged here. */
  failed(failure: ApiError, requestId: string): void {
    if (failure.code !== "system.internal") return;
    this.#log.error({ err: failure.cause ?? failure, requestId }, "request failed");
  }

  /** The answer was sent or has failed, or the client disconnected: 499. */
  closed({ requestId, path, slot, code, seconds, failure, record }: EndedRequest): void {
    if (this.#lines === undefined) return;
    if (code < 400 && failure === undefined && this.#part < 1 && Math.random() >= this.#part) return;
    const { engine } = record;
    // The log leaves out what is undefined.
    const line = {
      requestId,
      slot,
      status: code,
      asked: record.requestedModel || undefined,
      stream: record.isStream || undefined,
      leftOut: record.leftOut || undefined,
      resolved: engine?.model,
      failure: failure?.code,
      ms: Math.round(seconds * 1000),
      heldMs: Math.round(record.heldMs) || undefined,
      queuedMs: Math.round(record.queuedMs) || undefined,
      firstTokenMs: record.firstTokenMs === 0 ? undefined : Math.round(record.firstTokenMs),
      engineMs: engine === undefined ? undefined : Math.round(engine.ms),
      tokensIn: engine?.tokensIn,
      tokensOut: engine?.tokensOut,
    };
    this.#lines.info(line, `${path} ${slot} ${code}${failure === undefined ? "" : ` ${failure.code}`}`);
  }
}
