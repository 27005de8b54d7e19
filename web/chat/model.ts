/** A part of a message's content, as the chat API has it. */
export type Part =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image_url"; readonly image_url: { readonly url: string } };

export interface ToolCall {
  readonly name: string;
  readonly arguments: string;
}

/** A text that belongs to a question, under its name. */
export interface TextFile {
  readonly name: string;
  readonly text: string;
}

export interface Message {
  readonly role: "user" | "assistant";
  readonly content: string;
  /** Pictures as `data:` addresses. */
  readonly images?: readonly string[];
  /** Attached texts; a model is sent them before `content`. */
  readonly files?: readonly TextFile[];
  /** What the model thought before it answered. */
  readonly thoughts?: string;
  readonly thoughtSeconds?: number;
  readonly toolCalls?: readonly ToolCall[];
  /** The model that answered. */
  readonly model?: string;
  readonly tokens?: number;
  readonly seconds?: number;
  /** Whether its limit of tokens has ended it. */
  readonly isCut?: boolean;
  /** Why the answer ends before its end. */
  readonly failure?: string;
  /** The cause of `failure`, where a person has to do more than to ask again. */
  readonly cause?: Cause;
  /** The place of the message that it follows, where that is not the one before it; -1: it is a first one. */
  readonly after?: number;
}

export interface Cause {
  readonly code: string;
  /** The slot that answers once a person has done something. */
  readonly slot?: string;
  readonly isUnloaded?: boolean;
}

export interface Parameters {
  readonly system: string;
  /** Empty: the engine's own. */
  readonly temperature: string;
  readonly maxTokens: string;
}

export interface Conversation {
  readonly id: string;
  readonly title: string;
  readonly model: string;
  readonly parameters: Parameters;
  /** The messages of all branches, in the order of their writing. */
  readonly messages: readonly Message[];
  /** The place of the shown branch's end; absent: the last message. */
  readonly shown?: number;
  readonly updated_at: string;
  /** Whether it stands first in the list. */
  readonly pinned?: boolean;
}

/** The field's fault as a sentence; undefined: it has none, or is empty. A faulty value is not sent. */
export function faultOf(field: "temperature" | "maxTokens", text: string): string | undefined {
  const value = Number(text);
  if (text === "") return undefined;
  if (field === "temperature") return value >= 0 && value <= 2 ? undefined : "0 to 2. This value is not sent.";
  return Number.isInteger(value) && value >= 1 ? undefined : "A whole number from 1. This value is not sent.";
}

export const noParameters: Parameters = { system: "", temperature: "", maxTokens: "" };

export function newId(): string {
  const random = crypto.getRandomValues(new Uint8Array(12));
  return [...random].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function newConversation(model: string): Conversation {
  return {
    id: newId(),
    title: "",
    model,
    parameters: noParameters,
    messages: [],
    updated_at: new Date().toISOString(),
  };
}

/** The first words of the first question, else the name of what came with it. */
export function titleOf(messages: readonly Message[]): string {
  const [first] = messages;
  const words = (first?.content ?? "").trim().split(/\s+/);
  // Signs, not their halves.
  const signs = Array.from(words.slice(0, 8).join(" "));
  const isCut = words.length > 8 || signs.length > 60;
  return isCut ? `${signs.slice(0, 59).join("")}…` : signs.join("") || first?.files?.[0]?.name || "Picture";
}
