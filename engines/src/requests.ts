import { Refusal } from "./refusal.ts";
import type { ChatMessage } from "./template.ts";

export interface Sampling {
  readonly maxTokens: number | undefined;
  readonly temperature: number;
  readonly topP: number;
  readonly seed: number | undefined;
  readonly stop: readonly string[];
  readonly isStream: boolean;
  readonly hasUsage: boolean;
}

type Body = Readonly<Record<string, unknown>>;

/** The body as an object. Throws Refusal. */
export function readBody(text: string): Body {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new Refusal(400, "the body is not JSON");
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed))
    throw new Refusal(400, "the body is not a JSON object");
  return { ...parsed };
}

export function readSampling(body: Body): Sampling {
  const options = body["stream_options"];
  return {
    maxTokens:
      number(body, "max_completion_tokens", 0, 1e9) ??
      number(body, "max_tokens", 0, 1e9) ??
      number(body, "n_predict", -1, 1e9),
    temperature: number(body, "temperature", 0, 100) ?? 0.8,
    topP: number(body, "top_p", 0, 1) ?? 0.95,
    seed: number(body, "seed", -1, Number.MAX_SAFE_INTEGER),
    stop: readStop(body["stop"]),
    isStream: body["stream"] === true,
    hasUsage:
      typeof options === "object" && options !== null && "include_usage" in options && options.include_usage === true,
  };
}

function number(body: Body, key: string, min: number, max: number): number | undefined {
  const value = body[key];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || Number.isNaN(value) || value < min || value > max) {
    throw new Refusal(400, `${key} must be a number from ${min} to ${max}`);
  }
  return value < 0 ? undefined : value;
}

function readStop(value: unknown): string[] {
  if (value === undefined || value === null) return [];
  const list = Array.isArray(value) ? value : [value];
  return list
    .map((item) => {
      if (typeof item !== "string") throw new Refusal(400, "stop must be a text or a list of texts");
      return item;
    })
    .filter((item) => item !== "");
}

/** Messages with text content; parts of other types are refused, for this engine only reads text. */
export function readMessages(body: Body): ChatMessage[] {
  const { messages } = body;
  if (!Array.isArray(messages) || messages.length === 0)
    throw new Refusal(400, "messages must be a list of at least one message");
  return messages.map((message: unknown, index) => {
    if (typeof message !== "object" || message === null || !("role" in message) || typeof message.role !== "string") {
      throw new Refusal(400, `messages[${index}] has no role`);
    }
    return { role: message.role, content: readContent("content" in message ? message.content : "", index) };
  });
}

function readContent(content: unknown, index: number): string {
  if (content === null || content === undefined) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw new Refusal(400, `messages[${index}].content must be a text or a list of parts`);
  return content
    .map((part: unknown) => {
      if (typeof part === "object" && part !== null && "text" in part && typeof part.text === "string")
        return part.text;
      throw new Refusal(400, `messages[${index}] has a part that is not text; this engine reads text only`);
    })
    .join("");
}

export function readTexts(value: unknown, key: string): string[] {
  const list = Array.isArray(value) ? value : [value];
  if (list.length === 0) throw new Refusal(400, `${key} is empty`);
  return list.map((item) => {
    if (typeof item !== "string") throw new Refusal(400, `${key} must be a text or a list of texts`);
    return item;
  });
}
