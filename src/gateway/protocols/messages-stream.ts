import type { ChatUsage } from "../../api/chat-answer.ts";
import type { AnswerTranslation } from "../relay/answer-format.ts";
import { failed, readChatChunk } from "./chat-chunk.ts";
import { messageId, stopOf, thoughtsOf, usageOf } from "./messages-answer.ts";
import { SseDecoder } from "./sse-decoder.ts";

/** A block of the answer; a call has its index in the engine's stream. */
type Block = "text" | "thinking" | number;

/** A call whose pieces wait until the block before it has ended. */
interface WaitingCall {
  id: string | undefined;
  name: string;
  input: string;
}

/** Of all calls that had to wait, beside `costOfCall` for each call there was: an engine may be wrong, or hostile, without end. */
const keptLimit = 4 * 1024 * 1024;
const costOfCall = 256;

/** What of the model's thoughts is left out still shows the client that something happens. */
const thoughtsPerPing = 32;

/**
 * A chat engine's stream as the events of Anthropic's Messages. Blocks follow one another there: text and the first
 * call stream as they come; a further call waits until everything before it is over.
 *
 *   message_start ping ( content_block_start content_block_delta* content_block_stop )* message_delta message_stop
 */
export class MessagesStream implements NonNullable<AnswerTranslation["stream"]> {
  readonly #decoder = new SseDecoder();
  #model = "";
  #isThinking = false;
  #id: string | undefined;
  #open: Block | undefined;
  #blocks = 0;
  readonly #waiting = new Map<number, WaitingCall>();
  readonly #closed = new Set<number>();
  #kept = 0;
  #thoughts = 0;
  #finish: string | null | undefined;
  #stop: unknown;
  #usage: ChatUsage | null | undefined;
  #isOver = false;
  #out = "";

  expect({ model, isThinking }: { model: string; isThinking: boolean }): void {
    this.#model = model;
    this.#isThinking = isThinking;
  }

  push(chunk: Buffer): Buffer | undefined {
    for (const item of this.#decoder.push(chunk)) {
      if (this.#isOver) break;
      if (item.kind === "comment") this.#event("ping", {});
      else if (item.data === "[DONE]") this.#close();
      else this.#chunk(item.data);
    }
    return this.#taken();
  }

  end(): Buffer | undefined {
    if (!this.#isOver) {
      if (typeof this.#finish !== "string") throw failed("the engine ended the stream early");
      this.#close();
    }
    return this.#taken();
  }

  #chunk(json: string): void {
    const chunk = readChatChunk(json);
    this.#start(chunk.id);
    this.#usage = chunk.usage ?? this.#usage;
    const choice = chunk.choices.find(({ index }) => index === 0);
    if (choice === undefined) return;
    this.#finish = choice.finish_reason ?? this.#finish;
    this.#stop = choice.stop_reason ?? this.#stop;
    const { delta } = choice;
    if (delta === null || delta === undefined) return;
    const thoughts = thoughtsOf(delta);
    if (thoughts !== "") this.#think(thoughts);
    const text = delta.content ?? delta.refusal ?? "";
    if (text !== "") {
      this.#begin("text", { type: "text", text: "" });
      this.#delta({ type: "text_delta", text });
    }
    for (const call of delta.tool_calls ?? []) {
      this.#call(call.index, call.id ?? undefined, call.function?.name ?? "", call.function?.arguments ?? "");
    }
  }

  #think(thinking: string): void {
    if (this.#isThinking) {
      this.#begin("thinking", { type: "thinking", thinking: "", signature: "" });
      this.#delta({ type: "thinking_delta", thinking });
      return;
    }
    this.#thoughts += 1;
    if (this.#thoughts % thoughtsPerPing === 0) this.#event("ping", {});
  }

  #call(index: number, id: string | undefined, name: string, input: string): void {
    if (this.#open === index) {
      if (input !== "") this.#delta({ type: "input_json_delta", partial_json: input });
      return;
    }
    if (this.#closed.has(index)) throw failed("the engine went back to a tool call that had ended");
    let call = this.#waiting.get(index);
    if (call === undefined) {
      call = { id, name: "", input: "" };
      this.#count(costOfCall + (id?.length ?? 0));
    }
    this.#count(name.length + input.length);
    call.id ??= id;
    call.name += name;
    call.input += input;
    this.#waiting.set(index, call);
    if (typeof this.#open !== "number" && call.name !== "") this.#beginCall(index, call);
  }

  #count(characters: number): void {
    this.#kept += characters;
    if (this.#kept > keptLimit) throw failed("the engine's tool calls are longer than 4 MiB");
  }

  #beginCall(index: number, { id, name, input }: WaitingCall): void {
    this.#waiting.delete(index);
    this.#begin(index, { type: "tool_use", id: id ?? `${this.#id ?? ""}_${index}`, name, input: {} });
    if (input !== "") this.#delta({ type: "input_json_delta", partial_json: input });
  }

  #start(id: string): void {
    if (this.#id !== undefined) return;
    this.#id = messageId(id);
    const message = {
      id: this.#id,
      type: "message",
      role: "assistant",
      model: this.#model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: usageOf(undefined),
    };
    this.#event("message_start", { message });
    this.#event("ping", {});
  }

  #begin(block: Block, content: object): void {
    if (this.#open === block) return;
    this.#endBlock();
    this.#open = block;
    this.#event("content_block_start", { index: this.#blocks, content_block: content });
  }

  #delta(delta: object): void {
    this.#event("content_block_delta", { index: this.#blocks, delta });
  }

  #endBlock(): void {
    if (this.#open === undefined) return;
    this.#event("content_block_stop", { index: this.#blocks });
    if (typeof this.#open === "number") this.#closed.add(this.#open);
    this.#open = undefined;
    this.#blocks += 1;
  }

  #close(): void {
    this.#isOver = true;
    this.#start("");
    for (const [index, call] of [...this.#waiting].toSorted(([a], [b]) => a - b)) this.#beginCall(index, call);
    const hasToolCalls = this.#closed.size > 0 || typeof this.#open === "number";
    this.#endBlock();
    const delta = stopOf({ finish: this.#finish, stop: this.#stop, hasToolCalls });
    this.#event("message_delta", { delta, usage: usageOf(this.#usage) });
    this.#event("message_stop", {});
  }

  #event(type: string, fields: object): void {
    this.#out += `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
  }

  #taken(): Buffer | undefined {
    if (this.#out === "") return undefined;
    const bytes = Buffer.from(this.#out);
    this.#out = "";
    return bytes;
  }
}
