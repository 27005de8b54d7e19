import { ApiError } from "../../api/errors.ts";
import { GatheredBytes } from "../../lib/gathered-bytes.ts";
import { withoutMark } from "../../lib/json-bytes.ts";
import { parseExactJson, parseForeign } from "../../lib/json.ts";
import type { ModelRename } from "./rename.ts";

const newline = 0x0a;
const quote = 0x22;
const dataMark = Buffer.from("data: ");
const doneMark = Buffer.from("[DONE]");
const finishMark = Buffer.from('"finish_reason"');
const errorMark = Buffer.from('"error"');
/** No client could read an event longer than this. */
const defaultLimitBytes = 4 * 1024 * 1024;
const eventEnd = Buffer.from("\n\n");

/** The engine's bytes are no event stream. */
export class StreamGarbage extends Error {
  override readonly name = "StreamGarbage";
}

/**
 * The client's error for an answer that cannot be read or translated, whatever the error: an answer of one engine must not
 * end the gateway.
 */
export function unfitAnswer(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const how = error instanceof StreamGarbage ? `is broken: ${error.message}` : "has another shape";
  return new ApiError("dispatch.upstream_failed", { message: `the answer ${how}`, cause: error });
}

/**
 * Relays Server-Sent Events byte for byte, in whole lines, except for three changes: the model's name; the first chunk
 * of a chat, which always is the delta with the role (CONTRACT "/v1"); and an engine's own error, which ends the
 * stream.
 */
export class EventStream {
  readonly #rename: ModelRename;
  readonly #endMark: RegExp | undefined;
  readonly #eventLimitBytes: number;
  #needsRole: boolean;
  /** A line without its end. No byte of it is scanned again before the end has arrived. */
  readonly #rest = new GatheredBytes();
  #hasData = false;
  #isFinished = false;
  #isDone = false;
  #error: string | undefined;

  /** `endMark` is in every complete stream; undefined: a finish reason or `[DONE]`. */
  constructor(options: {
    rename: ModelRename;
    isChat: boolean;
    endMark?: RegExp | undefined;
    eventLimitBytes?: number | undefined;
  }) {
    this.#rename = options.rename;
    this.#needsRole = options.isChat;
    this.#endMark = options.endMark;
    this.#eventLimitBytes = options.eventLimitBytes ?? defaultLimitBytes;
  }

  /** The answer is complete, and no event was cut off. */
  get isWhole(): boolean {
    return (this.#isDone || this.#isFinished) && this.#rest.size === 0;
  }

  /** The last token has been relayed. */
  get isEnding(): boolean {
    return this.#isFinished || this.#isDone;
  }

  /** `[DONE]` has been relayed. */
  get isDone(): boolean {
    return this.#isDone;
  }

  /** The JSON of the engine's error event; neither that event nor later ones are relayed. */
  get error(): string | undefined {
    return this.#error;
  }

  /** The bytes to send for a chunk, possibly none yet. Throws StreamGarbage. */
  push(chunk: Buffer): Buffer | undefined {
    if (this.#error !== undefined) return undefined;
    const end = chunk.lastIndexOf(newline) + 1;
    let lines = this.#upTo(chunk, end);
    if (end < chunk.length) this.#rest.add(chunk.subarray(end));
    if (this.#rest.size > this.#eventLimitBytes) throw new StreamGarbage("an event has no end");
    if (lines === undefined) return undefined;
    if (!this.#hasData) lines = this.#checked(lines);
    lines = this.#beforeError(lines);
    if (lines.length === 0) return undefined;
    this.#inspect(lines);
    lines = this.#rename.lines(lines);
    return this.#needsRole ? this.#withRole(lines) : lines;
  }

  /**
   * The end of the engine's stream. Returns its last line, with the missing line end, where the line is complete
   * otherwise; a cut line is dropped, and the stream is not complete. Throws StreamGarbage.
   */
  end(): Buffer | undefined {
    if (this.#rest.size === 0) return undefined;
    const line = this.#rest.take();
    this.#rest.add(line);
    return isWholeLine(line) ? this.push(eventEnd) : undefined;
  }

  /** The lines that end within the first `end` bytes of the chunk; undefined: none. */
  #upTo(chunk: Buffer, end: number): Buffer | undefined {
    if (end === 0) return undefined;
    if (this.#rest.size === 0) return chunk.subarray(0, end);
    this.#rest.add(chunk.subarray(0, end));
    return this.#rest.take();
  }

  /** The first lines, without a byte order mark. They show whether this is an event stream at all. */
  #checked(first: Buffer): Buffer {
    const lines = withoutMark(first);
    const text = lines.toString("latin1", 0, Math.min(lines.length, 16));
    if (!/^(\r?\n|data:|event:|id:|retry:|:)/.test(text)) throw new StreamGarbage("the answer is no event stream");
    this.#hasData = true;
    return lines;
  }

  #inspect(lines: Buffer): void {
    if (this.#endMark !== undefined) {
      this.#isFinished ||= this.#endMark.test(lines.toString("latin1"));
      return;
    }
    if (!this.#isFinished) this.#isFinished = hasFinishReason(lines);
    const at = lines.indexOf(doneMark);
    if (at < 0) return;
    this.#isDone ||= /^data: ?\[DONE\]\r?\n/m.test(lines.toString("latin1", lines.lastIndexOf(newline, at) + 1));
  }

  /** The lines before an event that begins with an `error` other than null; the error is kept instead. */
  #beforeError(lines: Buffer): Buffer {
    if (!lines.includes(errorMark)) return lines;
    const match = /^data: ?(\{\s*"error"\s*:(?!\s*null\b).*\})\r?$/m.exec(lines.toString("latin1"));
    if (match?.[1] === undefined) return lines;
    this.#error = Buffer.from(match[1], "latin1").toString();
    return lines.subarray(0, match.index);
  }

  #withRole(lines: Buffer): Buffer {
    // As bytes: text may hold other line ends, such as U+2028, which JSON allows.
    const match = /^data: ?(\{.*\})\r?$/m.exec(lines.toString("latin1"));
    if (match?.[1] === undefined) return lines;
    this.#needsRole = false;
    const role = roleChunk(Buffer.from(match[1], "latin1").toString());
    return role === undefined ? lines : Buffer.concat([Buffer.from(`data: ${role}\n\n`), lines]);
  }
}

/** The number of events whose data begin in these whole lines. */
export function eventsIn(lines: Buffer): number {
  let count = 0;
  for (let at = lines.indexOf(dataMark); at >= 0; at = lines.indexOf(dataMark, at + dataMark.length))
    if (at === 0 || lines[at - 1] === newline) count += 1;
  return count;
}

/** Whether `lines`, which are whole, end with a blank line. */
export function endsWithBlankLine(lines: Buffer): boolean {
  const end = lines.length - 2;
  const before = lines[end] === 0x0d ? end - 1 : end;
  return before < 0 || lines[before] === newline;
}

/** A line that is an object up to its last brace was complete. */
function isWholeLine(line: Buffer): boolean {
  const data = /^data: ?(\[DONE\]|\{.*\})\r?$/.exec(line.toString("latin1"))?.[1];
  return data !== undefined && (data === "[DONE]" || parseForeign(data) !== undefined);
}

/** A finish reason as text; every chunk but the last of a choice has `null` there. */
function hasFinishReason(lines: Buffer): boolean {
  for (let at = lines.indexOf(finishMark); at >= 0; at = lines.indexOf(finishMark, at)) {
    at += finishMark.length;
    while (isBlankOrColon(lines[at])) at += 1;
    if (lines[at] === quote) return true;
  }
  return false;
}

function isBlankOrColon(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x3a || byte === 0x09;
}

/** The chunk that must come first, made from the engine's own first one; undefined when that has the role already. */
function roleChunk(json: string): string | undefined {
  const chunk = parseExactJson(json);
  if (chunk === undefined) throw new StreamGarbage("an event is not JSON");
  if (typeof chunk !== "object" || chunk === null || !("choices" in chunk) || !Array.isArray(chunk.choices))
    return undefined;
  const [choice]: unknown[] = chunk.choices;
  if (typeof choice === "object" && choice !== null && "delta" in choice) {
    const { delta } = choice;
    if (typeof delta === "object" && delta !== null && "role" in delta) return undefined;
  }
  const { choices: _choices, ...head } = chunk;
  const first = { index: 0, delta: { role: "assistant", content: "" }, finish_reason: null };
  return JSON.stringify({ ...head, choices: [first] });
}
