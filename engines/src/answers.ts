import { randomUUID } from "node:crypto";
import type { Finished } from "./generation.ts";

/** OpenAI's shapes for one answer: the same id, time and model in every chunk. */
export class ChatAnswer {
  readonly #head: { readonly id: string; readonly created: number; readonly model: string };

  constructor(model: string) {
    this.#head = { id: `chatcmpl-${randomUUID()}`, created: Math.floor(Date.now() / 1000), model };
  }

  chunk(delta: object, finishReason: string | null = null): object {
    return {
      ...this.#head,
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta, finish_reason: finishReason }],
    };
  }

  usage(finished: Finished): object {
    return { ...this.#head, object: "chat.completion.chunk", choices: [], usage: usageOf(finished) };
  }

  whole(content: string, finished: Finished): object {
    const message = { role: "assistant", content };
    return {
      ...this.#head,
      object: "chat.completion",
      choices: [{ index: 0, message, finish_reason: finished.finishReason }],
      usage: usageOf(finished),
    };
  }
}

export class TextAnswer {
  readonly #head: { readonly id: string; readonly object: string; readonly created: number; readonly model: string };

  constructor(model: string) {
    this.#head = {
      id: `cmpl-${randomUUID()}`,
      object: "text_completion",
      created: Math.floor(Date.now() / 1000),
      model,
    };
  }

  chunk(text: string, finishReason: string | null = null): object {
    return { ...this.#head, choices: [{ index: 0, text, logprobs: null, finish_reason: finishReason }] };
  }

  usage(finished: Finished): object {
    return { ...this.#head, choices: [], usage: usageOf(finished) };
  }

  whole(text: string, finished: Finished): object {
    return { ...this.chunk(text, finished.finishReason), usage: usageOf(finished) };
  }
}

function usageOf({ promptTokens, completionTokens }: Finished): object {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  };
}
