import {
  callItem,
  messageItem,
  messagePart,
  newId,
  reasoningItem,
  type Ending,
  type MessagePart,
} from "./responses-answer.ts";

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
  readonly #own = newId();
  readonly #index: number;
  readonly #emit: Emit;
  #callId: string | undefined;
  #name = "";
  #arguments = "";
  #isAnnounced = false;
  #status: Ending | undefined;

  constructor(index: number, emit: Emit) {
    this.#index = index;
    this.#emit = emit;
  }

  add(id: string | undefined, name: string, delta: string): void {
    this.#callId ??= id;
    if (!this.#isAnnounced) this.#name += name;
    this.#arguments += delta;
    if (this.#isAnnounced && delta !== "") this.#emit("response.function_call_arguments.delta", { ...this.#at, delta });
    else if (this.#name !== "") this.#announce();
  }

  end(status: Ending): void {
    if (this.#status !== undefined) return;
    this.#announce();
    this.#status = status;
    this.#emit("response.function_call_arguments.done", {
      ...this.#at,
      name: this.#name,
      arguments: this.#arguments,
    });
    this.#emit("response.output_item.done", { output_index: this.#index, item: this.body(status) });
  }

  body(status: Ending): object {
    return this.#body(this.#status ?? status, this.#arguments);
  }

  #announce(): void {
    if (this.#isAnnounced) return;
    this.#isAnnounced = true;
    this.#emit("response.output_item.added", { output_index: this.#index, item: this.#body("in_progress", "") });
    if (this.#arguments !== "")
      this.#emit("response.function_call_arguments.delta", { ...this.#at, delta: this.#arguments });
  }

  get #at(): object {
    return { item_id: `fc_${this.#own}`, output_index: this.#index };
  }

  #body(status: Ending | "in_progress", text: string): object {
    const callId = this.#callId ?? `call_${this.#own}`;
    return callItem(`fc_${this.#own}`, status, { callId, name: this.#name, arguments: text });
  }
}
