import { CustomInput, wholeArguments, type CallText } from "./custom-input.ts";
import {
  callForms,
  callItem,
  messageItem,
  messagePart,
  newId,
  reasoningItem,
  type Ending,
  type MessagePart,
} from "./responses-answer.ts";
import type { ClientTool } from "./responses-tools.ts";

type Emit = (type: string, fields: object) => void;

/** One item of an answer in progress: it emits an event per step. */
export interface OpenItem {
  /** Does nothing the second time. */
  end(status: Ending): void;
  /** The item's form in the whole answer. */
  body(status: Ending): object;
}

export class ReasoningItem implements OpenItem {
  readonly #id = `rs_${newId()}`;
  readonly #emit: Emit;
  readonly #at: { readonly item_id: string; readonly output_index: number; readonly content_index: 0 };
  #text = "";
  #status: Ending | undefined;

  constructor(index: number, emit: Emit) {
    this.#emit = emit;
    this.#at = { item_id: this.#id, output_index: index, content_index: 0 };
    emit("response.output_item.added", {
      output_index: index,
      item: reasoningItem(this.#id, "in_progress", undefined),
    });
    emit("response.content_part.added", { ...this.#at, part: { type: "reasoning_text", text: "" } });
  }

  add(delta: string): void {
    this.#text += delta;
    this.#emit("response.reasoning_text.delta", { ...this.#at, delta });
  }

  end(status: Ending): void {
    if (this.#status !== undefined) return;
    this.#status = status;
    this.#emit("response.reasoning_text.done", { ...this.#at, text: this.#text });
    this.#emit("response.content_part.done", { ...this.#at, part: { type: "reasoning_text", text: this.#text } });
    this.#emit("response.output_item.done", { output_index: this.#at.output_index, item: this.body(status) });
  }

  body(status: Ending): object {
    return reasoningItem(this.#id, this.#status ?? status, this.#text);
  }
}

/** A message of one part, as models write it; a refusal after a text is a part of its own. */
export class MessageItem implements OpenItem {
  readonly #id = `msg_${newId()}`;
  readonly #index: number;
  readonly #emit: Emit;
  readonly #parts: MessagePart[] = [];
  #type: MessagePart["type"] | undefined;
  #text = "";
  #status: Ending | undefined;

  constructor(index: number, emit: Emit) {
    this.#index = index;
    this.#emit = emit;
    emit("response.output_item.added", { output_index: index, item: messageItem(this.#id, "in_progress", []) });
  }

  add(delta: string): void {
    this.#begin("output_text");
    this.#text += delta;
    this.#emit("response.output_text.delta", { ...this.#at, delta, logprobs: [] });
  }

  refuse(delta: string): void {
    this.#begin("refusal");
    this.#text += delta;
    this.#emit("response.refusal.delta", { ...this.#at, delta });
  }

  end(status: Ending): void {
    if (this.#status !== undefined) return;
    this.#endPart();
    this.#status = status;
    this.#emit("response.output_item.done", { output_index: this.#index, item: this.body(status) });
  }

  body(status: Ending): object {
    const open = this.#type === undefined ? [] : [messagePart(this.#type, this.#text)];
    return messageItem(this.#id, this.#status ?? status, [...this.#parts, ...open]);
  }

  get #at(): object {
    return { item_id: this.#id, output_index: this.#index, content_index: this.#parts.length };
  }

  #begin(type: MessagePart["type"]): void {
    if (this.#type === type) return;
    this.#endPart();
    this.#type = type;
    this.#emit("response.content_part.added", { ...this.#at, part: messagePart(type, "") });
  }

  #endPart(): void {
    const type = this.#type;
    if (type === undefined) return;
    const part = messagePart(type, this.#text);
    if (type === "refusal") this.#emit("response.refusal.done", { ...this.#at, refusal: this.#text });
    else this.#emit("response.output_text.done", { ...this.#at, text: this.#text, logprobs: [] });
    this.#emit("response.content_part.done", { ...this.#at, part });
    this.#parts.push(part);
    this.#type = undefined;
    this.#text = "";
  }
}

/** Emitted once its name is known. */
export class CallItem implements OpenItem {
  readonly #id = newId();
  readonly #index: number;
  readonly #emit: Emit;
  readonly #toolOf: (name: string) => ClientTool;
  #callId: string | undefined;
  /** Undefined until the name is known. */
  #tool: ClientTool | undefined;
  #reader: CallText = wholeArguments;
  /** Arguments that came before the name. */
  #early = "";
  #text = "";
  #status: Ending | undefined;

  /** `toolOf`: the client's tool with this name in the chat. */
  constructor(index: number, toolOf: (name: string) => ClientTool, emit: Emit) {
    this.#index = index;
    this.#toolOf = toolOf;
    this.#emit = emit;
  }

  add(id: string | undefined, name: string, delta: string): void {
    this.#callId ??= id;
    if (this.#tool !== undefined) this.#write(this.#reader.add(delta));
    else {
      this.#early += delta;
      if (name !== "") this.#announce(name);
    }
  }

  end(status: Ending): void {
    if (this.#status !== undefined) return;
    const tool = this.#tool ?? this.#announce("");
    this.#write(this.#reader.end());
    this.#status = status;
    const { events, field } = callForms[tool.type];
    const name = tool.type === "function" ? { name: tool.name } : {};
    this.#emit(`${events}.done`, { ...this.#at(tool), ...name, [field]: this.#text });
    this.#emit("response.output_item.done", { output_index: this.#index, item: this.body(status) });
  }

  body(status: Ending): object {
    return this.#body(this.#tool ?? this.#toolOf(""), this.#status ?? status);
  }

  #announce(name: string): ClientTool {
    const tool = this.#toolOf(name);
    this.#tool = tool;
    if (tool.type === "custom") this.#reader = new CustomInput();
    this.#emit("response.output_item.added", { output_index: this.#index, item: this.#body(tool, "in_progress") });
    this.#write(this.#reader.add(this.#early));
    return tool;
  }

  #write(delta: string): void {
    if (delta === "" || this.#tool === undefined) return;
    this.#text += delta;
    this.#emit(`${callForms[this.#tool.type].events}.delta`, { ...this.#at(this.#tool), delta });
  }

  #at({ type }: ClientTool): object {
    return { item_id: `${callForms[type].idPrefix}_${this.#id}`, output_index: this.#index };
  }

  #body(tool: ClientTool, status: Ending | "in_progress"): object {
    const callId = this.#callId ?? `call_${this.#id}`;
    return callItem(status, { id: this.#id, callId, tool, text: this.#text });
  }
}
