import type { Logger } from "pino";
import type { ApiError } from "../../api/errors.ts";
import type { RequestRecord } from "./request-record.ts";

/** A request whose answer was sent or has failed, or whose client has disconnected (499). */
export interface EndedRequest {
  /** As `requestIdOf` gives it: JSON escapes none of its characters. */
  readonly requestId: string;
  readonly path: string;
  readonly slot: string;
  readonly code: number;
  readonly seconds: number;
  readonly failure: ApiError | undefined;
  readonly record: RequestRecord;
}

/** pino's number of the level "info". */
const info = 30;

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
    this.#write(new AccessLine(request, Date.now()));
  }
}

/** The line of a request. */
export class AccessLine {
  readonly #request: EndedRequest;
  readonly #time: number;

  /** `time`: when it ended, in milliseconds of the wall clock. */
  constructor(request: EndedRequest, time: number) {
    this.#request = request;
    this.#time = time;
  }

  /** With its end. */
  text(): string {
    const { requestId, path, slot, code, seconds, failure, record } = this.#request;
    const { field, inMessage } = slots.of(slot);
    const ms = Math.round(seconds * 1000);
    let line = `${beginOf(this.#time)}${requestId}"${field}${code},"ms":${ms}${fieldsOf(record)}`;
    if (failure !== undefined) line += `,"failure":"${failure.code}"`;
    // No request id, no path of ours and no error code has a character that JSON escapes.
    return `${line},"msg":"${path}${inMessage}${code}${failure === undefined ? "" : ` ${failure.code}`}"}\n`;
  }
}

let begin = { time: -1, text: "" };

/** Requests that end together end in the same millisecond, and a large number is the dearest part of a line. */
function beginOf(time: number): string {
  if (begin.time !== time)
    begin = { time, text: `{"level":${info},"time":${time},"component":"gateway","requestId":"` };
  return begin.text;
}

/** Unknown fields are left out. */
function fieldsOf({ requestedModel, isStream, heldMs, queuedMs, firstTokenMs, engine }: RequestRecord): string {
  let fields = requestedModel === "" ? "" : requestedModels.of(requestedModel);
  if (isStream) fields += ',"stream":true';
  if (heldMs >= 1) fields += `,"heldMs":${Math.round(heldMs)}`;
  if (queuedMs >= 1) fields += `,"queuedMs":${Math.round(queuedMs)}`;
  if (firstTokenMs > 0) fields += `,"firstTokenMs":${Math.round(firstTokenMs)}`;
  if (engine === undefined) return fields;
  fields += `${resolved.of(engine.model)}${Math.round(engine.ms)}`;
  if (engine.tokensIn !== undefined) fields += `,"tokensIn":${engine.tokensIn}`;
  if (engine.tokensOut !== undefined) fields += `,"tokensOut":${engine.tokensOut}`;
  return fields;
}

/** Clients choose the names of models freely: at this number all are made again. */
const nameLimit = 256;

/** What lines say of a slot or model, by its name. */
class NameTexts<T> {
  readonly #texts = new Map<string, T>();
  readonly #make: (quoted: string) => T;

  /** `make` gets the name in JSON. */
  constructor(make: (quoted: string) => T) {
    this.#make = make;
  }

  of(name: string): T {
    let text = this.#texts.get(name);
    if (text === undefined) {
      if (this.#texts.size >= nameLimit) this.#texts.clear();
      text = this.#make(JSON.stringify(name));
      this.#texts.set(name, text);
    }
    return text;
  }
}

const slots = new NameTexts((quoted) => ({
  field: `,"slot":${quoted},"status":`,
  inMessage: ` ${quoted.slice(1, -1)} `,
}));
const requestedModels = new NameTexts((quoted) => `,"asked":${quoted}`);
const resolved = new NameTexts((quoted) => `,"resolved":${quoted},"engineMs":`);
