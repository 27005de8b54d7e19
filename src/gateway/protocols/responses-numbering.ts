import type { ApiError } from "../../api/errors.ts";
import { parseExactJson, parseForeign } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";
import type { AnswerTranslation } from "../relay/answer-format.ts";
import { errorEvent } from "./responses-errors.ts";
import { SseDecoder } from "./sse-decoder.ts";
import type { Translation } from "./translation.ts";

/** More items are no valid answer; only the index of each is kept. */
const itemLimit = 10_000;
/** A stream without an event in this many bytes is passed unchanged. */
const heldLimitBytes = 65_536;

/**
 * Responses of an engine that has the protocol itself. Some, llama.cpp's `llama-server` among them, number neither
 * events nor items, which OpenAI's SDKs need to assemble a stream: then the numbers are added. A stream whose first
 * event has a number is passed unchanged.
 */
export class NumberedResponses implements Translation {
  readonly stream = new NumberedStream();

  request(body: Buffer): Buffer {
    return body;
  }

  answer(body: Buffer): Buffer {
    return body;
  }
}

class NumberedStream implements NonNullable<AnswerTranslation["stream"]> {
  readonly #decoder = new SseDecoder();
  /** The bytes until the first event is complete; undefined after that. */
  #held: Buffer[] | undefined = [];
  #heldBytes = 0;
  #isNumbered = false;
  #sequence = 0;
  readonly #items = new Map<unknown, { readonly index: number; parts: number }>();

  push(chunk: Buffer): Buffer | undefined {
    if (this.#isNumbered) return chunk;
    const items = this.#decoder.push(chunk);
    if (this.#held !== undefined) {
      this.#held.push(chunk);
      this.#heldBytes += chunk.length;
      const first = items.find((item) => item.kind === "data");
      if (first === undefined && this.#heldBytes < heldLimitBytes) return undefined;
      this.#isNumbered = first === undefined || isNumbered(first.data);
      const held = Buffer.concat(this.#held);
      this.#held = undefined;
      if (this.#isNumbered) return held;
    }
    const out = items.map((item) => (item.kind === "comment" ? ": ping\n\n" : this.#numbered(item.data))).join("");
    return out === "" ? undefined : Buffer.from(out);
  }

  end(): undefined {
    return undefined;
  }

  fail(failure: ApiError): string | undefined {
    return this.#isNumbered ? undefined : errorEvent(failure, this.#sequence);
  }

  #numbered(data: string): string {
    const event = parseExactJson(data);
    if (!isRecord(event) || typeof event["type"] !== "string") return `data: ${data}\n\n`;
    const { type } = event;
    const numbers = { sequence_number: this.#sequence++, ...this.#place(type, event) };
    return `event: ${type}\ndata: ${JSON.stringify({ type, ...numbers, ...event })}\n\n`;
  }

  /** The event's indexes in the answer. */
  #place(type: string, event: Record<string, unknown>): object {
    const id = isRecord(event["item"]) ? event["item"]["id"] : event["item_id"];
    if (id === undefined) return {};
    let item = this.#items.get(id);
    if (item === undefined && this.#items.size < itemLimit) {
      item = { index: this.#items.size, parts: 0 };
      this.#items.set(id, item);
    }
    if (item === undefined) return {};
    if (type === "response.content_part.added") item.parts += 1;
    const isOfPart = /^response\.(content_part|output_text|refusal|reasoning_text)\./.test(type);
    const part = isOfPart ? { content_index: Math.max(0, item.parts - 1) } : {};
    const logprobs = type.startsWith("response.output_text.") ? { logprobs: [] } : {};
    return { output_index: item.index, ...part, ...logprobs };
  }
}

function isNumbered(data: string): boolean {
  const event = parseForeign(data);
  return isRecord(event) && typeof event["sequence_number"] === "number";
}
