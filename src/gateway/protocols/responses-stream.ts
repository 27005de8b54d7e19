import type { ChatUsage } from "../../api/chat-answer.ts";
import type { ApiError } from "../../api/errors.ts";
import type { AnswerTranslation } from "../relay/answer-format.ts";
import { failed, readChatChunk } from "./chat-chunk.ts";
import { thoughtsOf } from "./messages-answer.ts";
import { statusOf, type ResponseShell } from "./responses-answer.ts";
import { errorEvent } from "./responses-errors.ts";
import { CallItem, MessageItem, ReasoningItem, type OpenItem } from "./responses-items.ts";
import { SseDecoder } from "./sse-decoder.ts";

/** Every event of the end repeats the text: this much of it is kept, and no answer of a model is so long. */
const keptLimit = 4 * 1024 * 1024;
/** An item without a letter takes memory too. */
const costOfItem = 256;

/**
 * A chat engine's stream as the events of OpenAI's Responses, numbered from 0. The text and the thoughts follow one
 * another; calls stay open until the end, since engines may send their pieces in turn.
 *
 *   response.created response.in_progress
 *     ( output_item.added … output_item.done )*  response.completed | response.incomplete
 */
export class ResponsesStream implements NonNullable<AnswerTranslation["stream"]> {
  readonly #decoder = new SseDecoder();
  readonly #shell: ResponseShell;
  readonly #keep: (item: object) => void;
  #isBegun = false;
  #isOver = false;
  #sequence = 0;
  #kept = 0;
  readonly #items: OpenItem[] = [];
  /** The text or the thoughts that are being written. */
  #open: MessageItem | ReasoningItem | undefined;
  readonly #calls = new Map<number, CallItem>();
  #finish: string | null | undefined;
  #usage: ChatUsage | null | undefined;
  #out = "";

  readonly #emit = (type: string, fields: object): void => {
    const data = JSON.stringify({ type, sequence_number: this.#sequence++, ...fields });
    this.#out += `event: ${type}\ndata: ${data}\n\n`;
  };

  /** `keep` gets every item that the client has got, also where it stopped the answer. */
  constructor(shell: ResponseShell, keep: (item: object) => void) {
    this.#shell = shell;
    this.#keep = keep;
  }

  push(chunk: Buffer): Buffer | undefined {
    for (const item of this.#decoder.push(chunk)) {
      if (this.#isOver) break;
      if (item.kind === "comment") this.#out += ": ping\n\n";
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

  fail(failure: ApiError): string {
    this.#out += errorEvent(failure, this.#sequence++);
    const output = this.#items.map((item) => item.body("incomplete"));
    for (const item of output) this.#keep(item);
    if (this.#isBegun) this.#emit("response.failed", { response: this.#shell.failed(failure, output) });
    const events = this.#out;
    this.#out = "";
    this.#isOver = true;
    return events;
  }

  abandon(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const item of this.#items) this.#keep(item.body("incomplete"));
  }

  #chunk(json: string): void {
    const chunk = readChatChunk(json);
    this.#begin();
    this.#usage = chunk.usage ?? this.#usage;
    const choice = chunk.choices.find(({ index }) => index === 0);
    if (choice === undefined) return;
    this.#finish = choice.finish_reason ?? this.#finish;
    const { delta } = choice;
    if (delta === null || delta === undefined) return;
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
      this.#call(index).add(id ?? undefined, name, this.#counted(called?.arguments ?? ""));
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
      call = new CallItem(this.#items.length, this.#emit);
      this.#calls.set(index, call);
      this.#keepItem(call);
    }
    return call;
  }

  /** Ends what is being written, and begins the next, if any. */
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
    if (this.#kept > keptLimit) throw failed("the engine's answer is longer than 4 MiB");
  }

  #begin(): void {
    if (this.#isBegun) return;
    this.#isBegun = true;
    const response = this.#shell.begun();
    this.#emit("response.created", { response });
    this.#emit("response.in_progress", { response });
  }

  #close(): void {
    this.#isOver = true;
    this.#begin();
    const status = statusOf(this.#finish);
    const last = this.#items.at(-1);
    for (const item of this.#items) item.end(item === last ? status : "completed");
    const output = this.#items.map((item) => item.body(item === last ? status : "completed"));
    for (const item of output) this.#keep(item);
    this.#emit(`response.${status}`, { response: this.#shell.ended(this.#finish, output, this.#usage) });
  }

  #taken(): Buffer | undefined {
    if (this.#out === "") return undefined;
    const bytes = Buffer.from(this.#out);
    this.#out = "";
    return bytes;
  }
}
