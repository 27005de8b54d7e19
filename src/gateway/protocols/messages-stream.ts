import { ChatStream, type ChatChoice, type ChatDelta } from "./chat-stream.ts";
import { failed } from "./json.ts";
import { messageId, stopOf, thoughtsOf, usageOf } from "./messages-answer.ts";

/** A block of the answer; a call has its index in the engine's stream. */
type Block = "text" | "thinking" | number;

/** A call whose pieces wait until the block before it has ended. */
interface WaitingCall {
  id: string | undefined;
  name: string;
  input: string;
}

/** The limit of all waiting calls, with `costOfCall` for each: an engine's stream may be endless. */
const keptLimit = 4 * 1024 * 1024;
const costOfCall = 256;

/** After this many omitted pieces of reasoning the client gets a ping as progress. */
const thoughtsPerPing = 32;

/**
 * A chat engine's stream as the events of Anthropic's Messages. Its blocks follow one another: text and the first
 * call are streamed; a further call waits until everything before it is complete.
 *
 *   message_start ping ( content_block_start content_block_delta* content_block_stop )* message_delta message_stop
 */
export class MessagesStream extends ChatStream {
  #model = "";
  #isThinking = false;
  #id: string | undefined;
  #open: Block | undefined;
  #blocks = 0;
  readonly #waiting = new Map<number, WaitingCall>();
  readonly #closed = new Set<number>();
  #kept = 0;
  #thoughts = 0;
  #stop: unknown;

  expect({ model, isThinking }: { model: string; isThinking: boolean }): void {
    this.#model = model;
    this.#isThinking = isThinking;
  }

  protected override onComment(): void {
    this.#event("ping", {});
  }

  protected override onDelta(delta: ChatDelta, choice: ChatChoice): void {
    this.#stop = choice.stop_reason ?? this.#stop;
    const thoughts = thoughtsOf(delta);
    if (thoughts !== "") this.#think(thoughts);
    const text = delta.content ?? delta.refusal ?? "";
    if (text !== "") {
      this.#beginBlock("text", { type: "text", text: "" });
      this.#delta({ type: "text_delta", text });
    }
    for (const call of delta.tool_calls ?? []) {
      this.#call(call.index, call.id || undefined, call.function?.name ?? "", call.function?.arguments ?? "");
    }
  }

  #think(thinking: string): void {
    if (this.#isThinking) {
      this.#beginBlock("thinking", { type: "thinking", thinking: "", signature: "" });
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
    if (this.#closed.has(index)) throw failed("the answer goes back to a tool call that has ended");
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
    if (this.#kept > keptLimit) throw failed("the answer's tool calls are longer than 4 MiB");
  }

  #beginCall(index: number, { id, name, input }: WaitingCall): void {
    this.#waiting.delete(index);
    this.#beginBlock(index, { type: "tool_use", id: id ?? `${this.#id ?? ""}_${index}`, name, input: {} });
    if (input !== "") this.#delta({ type: "input_json_delta", partial_json: input });
  }

  protected override begin(id: string): void {
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

  #beginBlock(block: Block, content: object): void {
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

  protected override close(): void {
    for (const [index, call] of [...this.#waiting].toSorted(([a], [b]) => a - b)) this.#beginCall(index, call);
    const hasToolCalls = this.#closed.size > 0 || typeof this.#open === "number";
    this.#endBlock();
    const delta = stopOf({ finish: this.finish, stop: this.#stop, hasToolCalls });
    this.#event("message_delta", { delta, usage: usageOf(this.usage) });
    this.#event("message_stop", {});
  }

  #event(type: string, fields: object): void {
    this.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);
  }
}
