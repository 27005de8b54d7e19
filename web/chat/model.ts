import type { AnswerTo, Fixed } from "../../src/api/management/call.ts";

/** A part of a message's content, as the chat API has it. */
export type Part =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image_url"; readonly image_url: { readonly url: string } };

/** A conversation as the server keeps it. */
export type Conversation = Fixed<AnswerTo<"GET /api/conversations/{id}">>;
export type Message = Conversation["messages"][number];
export type Parameters = Conversation["parameters"];
export type ToolCall = NonNullable<Message["toolCalls"]>[number];
/** A text that belongs to a question, under its name; a model is sent it before the question. */
export type TextFile = NonNullable<Message["files"]>[number];

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
