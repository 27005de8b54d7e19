import { partsOf, textOf, type ChatContent } from "./chat-content.ts";

/** A message of a chat as the translations write it. */
export type ChatMessage =
  | { readonly role: "system"; readonly content: string }
  | { readonly role: "user"; readonly content: ChatContent }
  | { readonly role: "assistant"; readonly content: string | null; readonly tool_calls?: readonly object[] }
  | { readonly role: "tool"; readonly content: string; readonly tool_call_id: string };

/**
 * The same messages with one system message, at the beginning: many templates refuse any other, and also two messages of
 * the user in a row. Leading ones are joined. A later one becomes text of the user or of a tool at its place, in the tags
 * that Claude Code has for it: moved to the beginning it would make the engine read the whole conversation again.
 */
export function withOneSystem(messages: readonly ChatMessage[]): ChatMessage[] {
  const found = messages.findIndex(({ role }) => role !== "system");
  const first = found < 0 ? messages.length : found;
  const leading = messages.slice(0, first).map(({ content }) => textOf(content ?? ""));
  const system: ChatMessage[] = leading.length === 0 ? [] : [{ role: "system", content: leading.join("\n\n") }];
  const growing: GrowingMessage[] = [];
  let wasSystem = false;
  for (const message of behindResults(messages.slice(first))) {
    const last = growing.at(-1);
    const isSystem = message.role === "system";
    const content = isSystem ? reminder(message.content) : (message.content ?? "");
    const isJoined = isSystem
      ? last?.message.role === "user" || last?.message.role === "tool"
      : wasSystem && message.role === "user" && last?.message.role === "user";
    if (isJoined) last?.added.push(content);
    else growing.push({ message: isSystem ? { role: "user", content } : message, added: [] });
    wasSystem = isSystem;
  }
  return [...system, ...growing.map(whole)];
}

/** `added` is joined once, at the end: joined to each other one by one, 18,000 contents take seconds. */
interface GrowingMessage {
  readonly message: ChatMessage;
  readonly added: ChatContent[];
}

/** System messages between calls and their results follow the results: a chat has these directly after the calls. */
function behindResults(messages: readonly ChatMessage[]): ChatMessage[] {
  const made: ChatMessage[] = [];
  let held: ChatMessage[] = [];
  for (const message of messages) {
    const last = made.at(-1);
    if (message.role === "system" && last?.role === "assistant" && last.tool_calls !== undefined) {
      held.push(message);
      continue;
    }
    if (message.role !== "tool") {
      for (const each of held) made.push(each);
      held = [];
    }
    made.push(message);
  }
  return [...made, ...held];
}

function reminder(text: string): string {
  return `<system-reminder>\n${text}\n</system-reminder>`;
}

function whole({ message, added }: GrowingMessage): ChatMessage {
  if (added.length === 0) return message;
  const contents = [message.content ?? "", ...added];
  const texts = contents.filter((content) => typeof content === "string");
  const isText = texts.length === contents.length;
  if (message.role === "tool") return { ...message, content: texts.join("\n\n") };
  return { role: "user", content: isText ? texts.join("\n\n") : contents.flatMap(partsOf) };
}
