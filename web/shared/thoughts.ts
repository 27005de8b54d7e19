/** Thoughts of a model, in its answer or a part of it: llama.cpp calls it `reasoning_content`, OpenRouter `reasoning`. */
interface Thinking {
  readonly reasoning_content?: string | null;
  readonly reasoning?: unknown;
}

export function thoughtsOf({ reasoning_content: content, reasoning }: Thinking): string {
  return content || (typeof reasoning === "string" ? reasoning : "");
}
