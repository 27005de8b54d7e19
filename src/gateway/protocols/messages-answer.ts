import type { ChatUsage } from "./chat-format.ts";

/** Why the model stopped, and at which of the client's sequences. */
export interface StopFacts {
  readonly finish: string | null | undefined;
  /** vLLM's `stop_reason`. */
  readonly stop: unknown;
  readonly hasToolCalls: boolean;
}

/** Why a chat ended, in the values of Messages. */
export function stopOf({ finish, stop, hasToolCalls }: StopFacts): {
  stop_reason: string;
  stop_sequence: string | null;
} {
  if (finish === "length") return { stop_reason: "max_tokens", stop_sequence: null };
  if (finish === "content_filter") return { stop_reason: "refusal", stop_sequence: null };
  // Some engines report `stop` for tool calls.
  if (hasToolCalls) return { stop_reason: "tool_use", stop_sequence: null };
  if (typeof stop === "string") return { stop_reason: "stop_sequence", stop_sequence: stop };
  return { stop_reason: "end_turn", stop_sequence: null };
}

/** Anthropic counts cached tokens separately. */
export function usageOf(usage: ChatUsage | null | undefined): object {
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  return {
    input_tokens: Math.max(0, (usage?.prompt_tokens ?? 0) - cached),
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
    output_tokens: usage?.completion_tokens ?? 0,
  };
}

/** The engine's id in the protocol's form. */
export function messageId(id: string): string {
  return `msg_${id.replace(/^chatcmpl-/, "")}`;
}

/** The reasoning in a message or delta, under any engine's name for it. */
export function thoughtsOf(part: {
  readonly reasoning_content?: string | null | undefined;
  readonly reasoning?: unknown;
}): string {
  const { reasoning_content: content, reasoning } = part;
  return content ?? (typeof reasoning === "string" ? reasoning : "");
}
