import { shownMessages } from "./branches.ts";
import type { Conversation, Message } from "./model.ts";
import { fenced, wholeText } from "./texts.ts";

/** The shown branch of a conversation as Markdown, which people and other programs read; pictures are in it as `data:` addresses. */
export function exportText(conversation: Conversation): string {
  const { title, model, parameters } = conversation;
  const { system, temperature, maxTokens } = parameters;
  const facts = [
    `Model: ${model}`,
    ...(temperature === "" ? [] : [`Temperature: ${temperature}`]),
    ...(maxTokens === "" ? [] : [`Longest answer, in tokens: ${maxTokens}`]),
  ];
  return `${[
    `# ${title}`,
    facts.map((each) => `- ${each}`).join("\n"),
    ...(system.trim() === "" ? [] : ["## System prompt", system]),
    ...shownMessages(conversation).flatMap(partsOf),
  ].join("\n\n")}\n`;
}

function partsOf(message: Message): readonly string[] {
  const { role, model, images = [], thoughts, toolCalls = [], failure } = message;
  return [
    `## ${role === "user" ? "You" : (model ?? "Answer")}`,
    ...(thoughts === undefined ? [] : ["### Thoughts", thoughts]),
    ...[wholeText(message)].filter((text) => text !== ""),
    ...images.map((url, at) => `![Picture ${at + 1}](${url})`),
    ...toolCalls.map(({ name, arguments: given }) => `### Calls ${name}\n\n${fenced(given, "json")}`),
    ...(failure === undefined ? [] : [`*${failure}*`]),
  ];
}
