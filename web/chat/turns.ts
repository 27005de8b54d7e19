import type { Message, Part } from "./model.ts";
import { wholeText } from "./texts.ts";

export interface WireMessage {
  readonly role: string;
  readonly content: string | readonly Part[];
}

/** The failure of an answer that a person has stopped, which is no fault to be told. */
export const stoppedWords = "Stopped.";

/** Whether an answer has anything for a person to read or to see; thoughts alone are no answer. */
export function saysSomething({ content, images = [], toolCalls = [] }: Message): boolean {
  return content !== "" || images.length > 0 || toolCalls.length > 0;
}

/**
 * What a model is sent of a conversation whose last message is the question. Earlier questions without an answer are left
 * out, and so are pictures that a model has drawn: the chat API takes pictures of a person alone.
 */
export function sentMessages(messages: readonly Message[]): readonly WireMessage[] {
  return messages.filter((message, at) => isSent(message, messages[at + 1])).map(wireMessage);
}

function isSent(message: Message, next: Message | undefined): boolean {
  if (message.role === "assistant") return hasText(message);
  return next === undefined || (next.role === "assistant" && hasText(next));
}

const hasText = ({ content, toolCalls = [] }: Message): boolean => content !== "" || toolCalls.length > 0;

function wireMessage(message: Message): WireMessage {
  const { role, images = [] } = message;
  const content = wholeText(message);
  if (images.length === 0 || role === "assistant") return { role, content };
  const pictures = images.map((url): Part => ({ type: "image_url", image_url: { url } }));
  return { role, content: [{ type: "text", text: content }, ...pictures] };
}

/** What follows a question once it was answered again: the new answer, unless that has failed and an earlier one is better. */
export function afterRetry(earlier: readonly Message[], reply: Message): readonly Message[] {
  if (reply.failure === undefined || !earlier.some(saysSomething)) return [reply];
  const isGood = earlier.every(({ failure }) => failure === undefined);
  return isGood || !saysSomething(reply) ? earlier : [reply];
}
