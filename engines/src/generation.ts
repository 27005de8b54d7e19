import type { LlamaContext, LlamaContextSequence, LlamaModel, Token } from "node-llama-cpp";
import { Refusal } from "./refusal.ts";
import type { Sampling } from "./requests.ts";

export interface Finished {
  readonly finishReason: "stop" | "length";
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/**
 * Generates text piece by piece until the model ends, a stop sequence appears, the limit is reached or `signal`
 * aborts. Stop sequences are never part of what is yielded. Throws Refusal when the prompt does not fit.
 */
export async function* generate(
  model: LlamaModel,
  sequence: LlamaContextSequence,
  prompt: Token[],
  sampling: Sampling,
  signal: AbortSignal,
): AsyncGenerator<string, Finished> {
  const room = sequence.contextSize - prompt.length - 1;
  if (room < 1) {
    throw new Refusal(400, `the prompt has ${prompt.length} tokens, the context ${sequence.contextSize}`);
  }
  const limit = Math.min(sampling.maxTokens ?? room, room);
  await sequence.clearHistory();
  const tokens: Token[] = [];
  let text = "";
  let sent = 0;
  let finishReason: Finished["finishReason"] = "length";
  const hold = Math.max(0, ...sampling.stop.map(({ length }) => length - 1));
  const finished = (): Finished => ({ finishReason, promptTokens: prompt.length, completionTokens: tokens.length });
  if (limit === 0) return finished();
  const source = sequence.evaluate(prompt, {
    temperature: sampling.temperature,
    topP: sampling.topP,
    ...(sampling.seed === undefined ? {} : { seed: sampling.seed }),
    yieldEogToken: true,
  });
  for await (const token of source) {
    if (signal.aborted) break;
    if (model.isEogToken(token)) {
      finishReason = "stop";
      break;
    }
    tokens.push(token);
    text = model.detokenize(tokens);
    const stop = firstStop(text, sampling.stop, sent - hold);
    if (stop !== undefined) {
      finishReason = "stop";
      if (stop > sent) yield text.slice(sent, stop);
      return finished();
    }
    // Half a character, or what may become a stop sequence, waits for the next token.
    const safe = text.endsWith("\uFFFD") ? sent : text.length - heldBack(text, sampling.stop);
    if (safe > sent) {
      yield text.slice(sent, safe);
      sent = safe;
    }
    if (tokens.length >= limit) break;
  }
  if (text.length > sent) yield text.slice(sent);
  return finished();
}

function firstStop(text: string, stops: readonly string[], from: number): number | undefined {
  const found = stops.map((stop) => text.indexOf(stop, Math.max(0, from))).filter((index) => index >= 0);
  return found.length === 0 ? undefined : Math.min(...found);
}

/** Length of the longest end of `text` that begins a stop sequence. */
function heldBack(text: string, stops: readonly string[]): number {
  let longest = 0;
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > longest; length--) {
      if (text.endsWith(stop.slice(0, length))) longest = length;
    }
  }
  return longest;
}

/** Lends the context's sequences, first come first served. */
export class Sequences {
  readonly #free: LlamaContextSequence[];
  readonly #waiting: ((sequence: LlamaContextSequence) => void)[] = [];

  constructor(context: LlamaContext, count: number) {
    this.#free = Array.from({ length: count }, () => context.getSequence());
  }

  /** Waits for a sequence; rejects when `signal` aborts meanwhile. Disposing the loan gives it back. */
  async borrow(signal: AbortSignal): Promise<Disposable & { readonly sequence: LlamaContextSequence }> {
    const free = this.#free.pop();
    const sequence =
      free ??
      (await new Promise<LlamaContextSequence>((resolve, reject) => {
        const taker = (given: LlamaContextSequence): void => {
          signal.removeEventListener("abort", leave);
          resolve(given);
        };
        const leave = (): void => {
          this.#waiting.splice(this.#waiting.indexOf(taker), 1);
          reject(new Error("the client left"));
        };
        signal.addEventListener("abort", leave, { once: true });
        this.#waiting.push(taker);
      }));
    return {
      sequence,
      [Symbol.dispose]: () => {
        const next = this.#waiting.shift();
        if (next === undefined) this.#free.push(sequence);
        else next(sequence);
      },
    };
  }
}
