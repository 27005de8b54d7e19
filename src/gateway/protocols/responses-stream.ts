import type { ApiError } from "../../api/errors.ts";
import { ChatStream, type ChatDelta } from "./chat-stream.ts";
import { failed } from "./json.ts";
import { thoughtsOf } from "./messages-answer.ts";
import { statusOf, type ResponseShell } from "./responses-answer.ts";
import { errorEvent } from "./responses-errors.ts";
import { CallItem, MessageItem, ReasoningItem, type OpenItem } from "./responses-items.ts";
import type { ClientTool } from "./responses-tools.ts";

/** Every final event repeats the text: at most this much of it is kept, more than any model's answer. */
const keptLimit = 4 * 1024 * 1024;
/** The cost of an empty item. */
const costOfItem = 256;

/**
 * A chat engine's stream as the events of OpenAI's Responses, numbered from 0. Text and reasoning follow one
 * another; calls stay open until the end, since engines may interleave their pieces.
 *
 *   response.created response.in_progress
 *     ( output_item.added … output_item.done )*  response.completed | response.incomplete
 */
export class ResponsesStream extends ChatStream {
  readonly #shell: ResponseShell;
  readonly #keep: (item: object) => void;
  readonly #toolOf: (name: string) => ClientTool;
  #isBegun = false;
  #sequence = 0;
  #kept = 0;
  readonly #items: OpenItem[] = [];
  /** The text or the reasoning in progress. */
  #open: MessageItem | ReasoningItem | undefined;
  readonly #calls = new Map<number, CallItem>();

  readonly #emit = (type: string, fields: object): void => {
    const data = JSON.stringify({ type, sequence_number: this.#sequence++, ...fields });
    this.write(`event: ${type}\ndata: ${data}\n\n`);
  };

  /**
   * `toolOf`: the client's tool that the engine calls by a name. `keep` gets every item that the client has received,
   * also where the client stopped the answer.
   */
  constructor(shell: ResponseShell, toolOf: (name: string) => ClientTool, keep: (item: object) => void) {
    super();
    this.#shell = shell;
    this.#keep = keep;
    this.#toolOf = toolOf;
  }

  fail(failure: ApiError): string {
    this.write(errorEvent(failure, this.#sequence++));
    const output = this.#items.map((item) => item.body("incomplete"));
    for (const item of output) this.#keep(item);
    if (this.#isBegun) this.#emit("response.failed", { response: this.#shell.failed(failure, output) });
    this.isOver = true;
    return this.taken();
  }

  abandon(): void {
    if (this.isOver) return;
    this.isOver = true;
    for (const item of this.#items) this.#keep(item.body("incomplete"));
  }

  protected override onComment(): void {
    this.write(": ping\n\n");
  }

  protected override onDelta(delta: ChatDelta): void {
    const thoughts = thoughtsOf(delta);
    if (thoughts !== "") {
      if (!(this.#open instanceof ReasoningItem)) this.#openItem(new ReasoningItem(this.#items.length, this.#emit));
      this.#open?.add(this.#counted(thoughts));
    }
    if (delta.content) this.#message().add(this.#counted(delta.content));
    if (delta.refusal) this.#message().refuse(this.#counted(delta.refusal));
    for (const { index, id, function: called } of delta.tool_calls ?? []) {
      this.#openItem(undefined);
      const name = this.#counted(called?.name ?? "");
      this.#count(id?.length ?? 0);
      this.#call(index).add(id || undefined, name, this.#counted(called?.arguments ?? ""));
    }
  }

  #message(): MessageItem {
    if (this.#open instanceof MessageItem) return this.#open;
    const message = new MessageItem(this.#items.length, this.#emit);
    this.#openItem(message);
    return message;
  }

  #call(index: number): CallItem {
    let call = this.#calls.get(index);
    if (call === undefined) {
      call = new CallItem(this.#items.length, this.#toolOf, this.#emit);
      this.#calls.set(index, call);
      this.#keepItem(call);
    }
    return call;
  }

  /** Ends the item in progress, and begins the next, if any. */
  #openItem(next: MessageItem | ReasoningItem | undefined): void {
    this.#open?.end("completed");
    this.#open = next;
    if (next !== undefined) this.#keepItem(next);
  }

  #keepItem(item: OpenItem): void {
    this.#count(costOfItem);
    this.#items.push(item);
  }

  #counted(text: string): string {
    this.#count(text.length);
    return text;
  }

  #count(characters: number): void {
    this.#kept += characters;
    if (this.#kept > keptLimit) throw failed("the answer is longer than 4 MiB");
  }

  protected override begin(): void {
    if (this.#isBegun) return;
    this.#isBegun = true;
    const response = this.#shell.begun();
    this.#emit("response.created", { response });
    this.#emit("response.in_progress", { response });
  }

  protected override close(): void {
    const status = statusOf(this.finish);
    const last = this.#items.at(-1);
    for (const item of this.#items) item.end(item === last ? status : "completed");
    const output = this.#items.map((item) => item.body(item === last ? status : "completed"));
    for (const item of output) this.#keep(item);
    this.#emit(`response.${status}`, { response: this.#shell.ended(this.finish, output, this.usage) });
  }
}
