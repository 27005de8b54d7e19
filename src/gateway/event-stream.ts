import type { ModelRename } from "./rename.ts";

const newline = 0x0a;
const done = Buffer.from("[DONE]");
/** An event longer than this is no event stream that a client could read. */
const eventLimitBytes = 4 * 1024 * 1024;

/** The engine's bytes are no event stream. */
export class StreamGarbage extends Error {
  override readonly name = "StreamGarbage";
}

/**
 * Relays Server-Sent Events byte for byte, in whole lines, apart from two things: the model's name, and the first
 * chunk of a chat, which always is the delta with the role (CONTRACT "/v1").
 */
export class EventStream {
  readonly #rename: ModelRename | undefined;
  #needsRole: boolean;
  #rest: Buffer | undefined;
  #hasData = false;
  /** `[DONE]` has been relayed: the stream is whole. */
  isDone = false;

  constructor(options: { rename: ModelRename | undefined; isChat: boolean }) {
    this.#rename = options.rename;
    this.#needsRole = options.isChat;
  }

  /** What to send for a chunk, possibly nothing yet. Throws StreamGarbage. */
  push(chunk: Buffer): Buffer | undefined {
    const bytes = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk]);
    const end = bytes.lastIndexOf(newline) + 1;
    this.#rest = end === bytes.length ? undefined : bytes.subarray(end);
    if (this.#rest !== undefined && this.#rest.length > eventLimitBytes) throw new StreamGarbage("an event has no end");
    if (end === 0) return undefined;
    let lines = bytes.subarray(0, end);
    if (!this.#hasData) this.#check(lines);
    if (!this.isDone) {
      const at = lines.indexOf(done);
      this.isDone = at >= 0 && /^data: ?\[DONE\]\r?\n/m.test(lines.toString("latin1", lastLineStart(lines, at)));
    }
    if (this.#rename !== undefined) lines = this.#rename.apply(lines);
    return this.#needsRole ? this.#withRole(lines) : lines;
  }

  /** The first line tells whether this is an event stream at all. */
  #check(lines: Buffer): void {
    const text = lines.toString("latin1", 0, Math.min(lines.length, 16));
    if (!/^(\r?\n|data:|event:|id:|retry:|:)/.test(text)) throw new StreamGarbage("the answer is no event stream");
    this.#hasData = true;
  }

  #withRole(lines: Buffer): Buffer {
    const text = lines.toString();
    const match = /^data: ?(\{.*\})\r?$/m.exec(text);
    if (match?.[1] === undefined) return lines;
    this.#needsRole = false;
    const role = roleChunk(match[1]);
    return role === undefined ? lines : Buffer.concat([Buffer.from(`data: ${role}\n\n`), lines]);
  }
}

function lastLineStart(bytes: Buffer, at: number): number {
  return bytes.lastIndexOf(newline, at) + 1;
}

/** The chunk that must come first, made after the engine's own first one; undefined when that has the role already. */
function roleChunk(json: string): string | undefined {
  let chunk: unknown;
  try {
    chunk = JSON.parse(json);
  } catch {
    throw new StreamGarbage("an event is not JSON");
  }
  if (typeof chunk !== "object" || chunk === null || !("choices" in chunk) || !Array.isArray(chunk.choices))
    return undefined;
  const [choice]: unknown[] = chunk.choices;
  const delta = typeof choice === "object" && choice !== null && "delta" in choice ? choice.delta : undefined;
  if (typeof delta !== "object" || delta === null || "role" in delta) return undefined;
  const { choices: _choices, ...head } = chunk;
  const first = { index: 0, delta: { role: "assistant", content: "" }, finish_reason: null };
  return JSON.stringify({ ...head, choices: [first] });
}
