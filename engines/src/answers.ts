import { randomUUID } from "node:crypto";
import type { Finished, Piece } from "./pieces.ts";

/** One answer in one of OpenAI's shapes: whole, or as chunks with the same id, time and model. */
export interface Answer {
  /** The chunk before the first piece, if the form has one. */
  first(): object | undefined;
  chunk(piece: Piece): object;
  last(finished: Finished): object;
  /** The chunk for `stream_options.include_usage`. */
  usage(finished: Finished): object;
  whole(pieces: readonly Piece[], finished: Finished): object;
}

/** A chat's answer in OpenAI's shapes: whole, or its chunks one by one. */
export class ChatAnswer implements Answer {
  readonly #head: { readonly id: string; readonly created: number; readonly model: string };

  constructor(model: string) {
    this.#head = { id: `chatcmpl-${randomUUID()}`, created: now(), model };
  }

  first(): object {
    return this.#delta({ role: "assistant", content: "" });
  }

  chunk(piece: Piece): object {
    return this.#delta(delta(piece));
  }

  last(finished: Finished): object {
    return this.#delta({}, endOf(finished));
  }

  usage(finished: Finished): object {
    return { ...this.#head, object: "chat.completion.chunk", choices: [], usage: usageOf(finished) };
  }

  whole(pieces: readonly Piece[], finished: Finished): object {
    const content = pieces.map((piece) => ("content" in piece ? piece.content : "")).join("");
    const reasoning = pieces.map((piece) => ("reasoning" in piece ? piece.reasoning : "")).join("");
    const calls = callsOf(pieces);
    const message = {
      role: "assistant",
      content: content === "" && calls.length > 0 ? null : content,
      ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    };
    return {
      ...this.#head,
      object: "chat.completion",
      choices: [{ index: 0, message, ...endOf(finished) }],
      usage: usageOf(finished),
    };
  }

  #delta(change: object, end: object = noEnd): object {
    return { ...this.#head, object: "chat.completion.chunk", choices: [{ index: 0, delta: change, ...end }] };
  }
}

function delta(piece: Piece): object {
  if ("content" in piece) return { content: piece.content };
  if ("reasoning" in piece) return { reasoning_content: piece.reasoning };
  if ("call" in piece) {
    const { index, id, name } = piece.call;
    return { tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] };
  }
  const { index, text } = piece.arguments;
  return { tool_calls: [{ index, function: { arguments: text } }] };
}

function callsOf(pieces: readonly Piece[]): object[] {
  return pieces.flatMap((piece) => {
    if (!("call" in piece)) return [];
    const { index, id, name } = piece.call;
    const text = pieces
      .map((other) => ("arguments" in other && other.arguments.index === index ? other.arguments.text : ""))
      .join("");
    return [{ id, type: "function", function: { name, arguments: text } }];
  });
}

/** A completion's answer in OpenAI's shapes: whole, or its chunks one by one. */
export class TextAnswer implements Answer {
  readonly #head: { readonly id: string; readonly object: string; readonly created: number; readonly model: string };

  constructor(model: string) {
    this.#head = { id: `cmpl-${randomUUID()}`, object: "text_completion", created: now(), model };
  }

  first(): undefined {
    return undefined;
  }

  chunk(piece: Piece): object {
    return this.#choice("content" in piece ? piece.content : "");
  }

  last(finished: Finished): object {
    return this.#choice("", endOf(finished));
  }

  usage(finished: Finished): object {
    return { ...this.#head, choices: [], usage: usageOf(finished) };
  }

  whole(pieces: readonly Piece[], finished: Finished): object {
    const text = pieces.map((piece) => ("content" in piece ? piece.content : "")).join("");
    return { ...this.#choice(text, endOf(finished)), usage: usageOf(finished) };
  }

  #choice(text: string, end: object = noEnd): object {
    return { ...this.#head, choices: [{ index: 0, text, logprobs: null, ...end }] };
  }
}

const noEnd = { finish_reason: null };

/** Why an answer ended, as fields of its choice; `stop_reason` is vLLM's name for the stop sequence. */
function endOf({ finishReason, stop }: Finished): object {
  return { finish_reason: finishReason, ...(stop === undefined ? {} : { stop_reason: stop }) };
}

const now = (): number => Math.floor(Date.now() / 1000);

function usageOf({ promptTokens, completionTokens }: Finished): object {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  };
}
