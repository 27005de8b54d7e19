import { createParser } from "eventsource-parser";
import { parseForeign } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";
import type { AnswerTranslation } from "../relay/answer-format.ts";
import { engineEventFailure } from "../relay/engine-failure.ts";
import { StreamGarbage } from "../relay/event-stream.ts";
import { chatChunkSchema, type ChatChunk, type ChatUsage } from "./chat-format.ts";
import { failed } from "./json.ts";

export type ChatChoice = ChatChunk["choices"][number];
export type ChatDelta = NonNullable<ChatChoice["delta"]>;
type ToolCall = NonNullable<ChatDelta["tool_calls"]>[number];

/** Bytes without the end of an event or comment. */
const eventLimitBytes = 4 * 1024 * 1024;

/** A chat engine's stream on its way into the events of another protocol, which a subclass writes. */
export abstract class ChatStream implements NonNullable<AnswerTranslation["stream"]> {
  readonly #decoder = new TextDecoder();
  /** Bytes of the present event. The parser's own limit is not used: it makes an error with a stack for each unknown line. */
  readonly #parser = createParser({
    onEvent: ({ data }) => {
      this.#unendedBytes = 0;
      this.#event(data);
    },
    onComment: () => {
      this.#unendedBytes = 0;
      if (!this.isOver) this.onComment();
    },
  });
  #unendedBytes = 0;
  readonly #calls = new CallIndices();
  #out = "";
  /** No event may follow. */
  protected isOver = false;
  protected finish: string | null | undefined;
  protected usage: ChatUsage | null | undefined;

  push(chunk: Buffer): Buffer | undefined {
    if (!this.isOver) {
      this.#unendedBytes += chunk.length;
      this.#parser.feed(this.#decoder.decode(chunk, { stream: true }));
      if (this.#unendedBytes > eventLimitBytes) throw new StreamGarbage("an event has no end");
    }
    return this.#bytes();
  }

  end(): Buffer | undefined {
    if (!this.isOver) {
      if (typeof this.finish !== "string") throw failed("the stream ended early");
      this.#close();
    }
    return this.#bytes();
  }

  /** Writes the events of the beginning; called again with every chunk. */
  protected abstract begin(id: string): void;
  protected abstract onComment(): void;
  /** Each call has an index of its own. */
  protected abstract onDelta(delta: ChatDelta, choice: ChatChoice): void;
  /** Writes the events of the end. */
  protected abstract close(): void;

  protected write(text: string): void {
    this.#out += text;
  }

  /** Takes the events that are not sent yet. */
  protected taken(): string {
    const text = this.#out;
    this.#out = "";
    return text;
  }

  #event(data: string): void {
    if (this.isOver) return;
    if (data === "[DONE]") this.#close();
    else this.#chunk(readChatChunk(data));
  }

  #chunk(chunk: ChatChunk): void {
    this.begin(chunk.id);
    this.usage = chunk.usage ?? this.usage;
    const choice = chunk.choices.find(({ index }) => index === 0);
    if (choice === undefined) return;
    this.finish = choice.finish_reason ?? this.finish;
    const { delta } = choice;
    for (const call of delta?.tool_calls ?? []) call.index = this.#calls.of(call);
    this.onDelta(delta ?? emptyDelta, choice);
  }

  #close(): void {
    this.isOver = true;
    this.begin("");
    this.close();
  }

  #bytes(): Buffer | undefined {
    return this.#out === "" ? undefined : Buffer.from(this.taken());
  }
}

/**
 * An event of a chat engine's stream. Throws ApiError where the engine reports a failure, or sends another kind of
 * event.
 */
function readChatChunk(json: string): ChatChunk {
  const value = parseForeign(json);
  if (value === undefined) throw failed("the answer is broken: an event is not JSON");
  if (isRecord(value) && (value["error"] ?? null) !== null) throw engineEventFailure(json);
  const chunk = chatChunkSchema.safeParse(value).data;
  if (chunk === undefined) throw failed("the answer is broken: an event is no chat chunk");
  return chunk;
}

const emptyDelta: ChatDelta = { content: undefined, reasoning_content: undefined };

/**
 * The index of each tool call of an answer. Some providers, such as Gemini's OpenAI-style API, give each of several calls
 * the index 0 and an id of its own: a new id is a new call.
 */
class CallIndices {
  /** By the engine's index: the call whose pieces follow. */
  readonly #calls = new Map<number, { readonly index: number; id: string | undefined }>();
  #next = 0;

  of({ index, id }: ToolCall): number {
    let call = this.#calls.get(index);
    if (call === undefined || (id && call.id !== undefined && call.id !== id)) {
      call = { index: Math.max(index, this.#next), id: undefined };
      this.#next = call.index + 1;
      this.#calls.set(index, call);
    }
    call.id ??= id || undefined;
    return call.index;
  }
}
