import { contentOf, notShown, partsOf, textOf, type ChatContent } from "./chat-content.ts";

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

/**
 * The same messages with one system message, at the beginning: many templates refuse any other, and also two messages of
 * the user in a row. Leading ones are joined. A later one becomes text of the user or of a tool at its place, in the tags
 * that Claude Code has for it: moved to the beginning it would make the engine read the whole conversation again.
 */
export function withOneSystem(messages: readonly ChatMessage[]): ChatMessage[] {
  const found = messages.findIndex(({ role }) => role !== "system");
  const first = found < 0 ? messages.length : found;
  const leading = messages.slice(0, first).map(({ content }) => textOf(content ?? ""));
  const made: ChatMessage[] = leading.length === 0 ? [] : [{ role: "system", content: leading.join("\n\n") }];
  let wasSystem = false;
  for (const message of messages.slice(first)) {
    const isSystem = message.role === "system";
    const next = isSystem ? reminder(message.content) : message;
    const last = made.at(-1);
    if (next.role === "user" && last?.role === "user" && (isSystem || wasSystem))
      made.splice(-1, 1, { role: "user", content: joined(last.content, next.content) });
    else if (isSystem && last?.role === "tool")
      made.splice(-1, 1, { ...last, content: `${last.content}\n\n${textOf(next.content ?? "")}` });
    else made.push(next);
    wasSystem = isSystem;
  }
  return made;
}

function reminder(text: string): ChatMessage {
  return { role: "user", content: `<system-reminder>\n${text}\n</system-reminder>` };
}

function joined(content: ChatContent, more: ChatContent): ChatContent {
  if (typeof content === "string" && typeof more === "string") return `${content}\n\n${more}`;
  return [...partsOf(content), ...partsOf(more)];
}
