import { contentOf, notShown, type ChatContent } from "./chat-content.ts";

/** A message of a chat as the translations write it. */
export type ChatMessage =
  | { readonly role: "system"; readonly content: string }
  | { readonly role: "user"; readonly content: ChatContent }
  | { readonly role: "assistant"; readonly content: string | null; readonly tool_calls?: readonly object[] }
  | { readonly role: "tool"; readonly content: string; readonly tool_call_id: string };

/** The same messages for a model that reads texts alone: an image in a history must not end the conversation. */
export function withoutMedia(messages: readonly ChatMessage[]): ChatMessage[] {
  return messages.map((message) => {
    if (message.role !== "user" || typeof message.content === "string") return message;
    const content = message.content.map((part) => {
      if (part.type === "text") return part;
      return notShown(part.type === "image_url" ? "An image" : "A recording");
    });
    return { role: message.role, content: contentOf(content) };
  });
}
