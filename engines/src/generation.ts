import {
  LlamaGrammarEvaluationState,
  type LlamaContextSequence,
  type LlamaGrammar,
  type LlamaModel,
  type SequenceEvaluateOptions,
  type Token,
} from "node-llama-cpp";
import type { Finished, Pieces } from "./pieces.ts";
import { contextExceeded, errorMessage, Refusal } from "./refusal.ts";
import type { Sampling } from "./requests.ts";

/** The window of repetition penalties in tokens, as in llama-server. */
const penaltyWindow = 64;
const windowTokens = 32;
/** Tokens that are computed at once. A started batch cannot be cancelled: on a slow machine it takes some seconds. */
export const batchTokens = 256;

/**
 * Generates text piece by piece until the model ends, a stop sequence appears, the limit is reached or `signal` aborts.
 * Stop sequences are never part of the pieces; `ends` are further ones, which the answer does not name. Throws Refusal
 * when the prompt does not fit.
 */
export async function* generate(
  model: LlamaModel,
  sequence: LlamaContextSequence,
  prompt: Token[],
  sampling: Sampling,
  signal: AbortSignal,
  { grammar, ends = [] }: { readonly grammar?: LlamaGrammar | undefined; readonly ends?: readonly string[] } = {},
): Pieces {
  const limit = tokenLimit(sequence, prompt.length, sampling);
  const tokens: Token[] = [];
  // Only these tokens are converted to text again at each token: converting the whole answer would cost ever more. The
  // tokens before them decide about a leading blank.
  let window: Token[] = [];
  let before: Token[] = [];
  let text = "";
  let sent = 0;
  let finishReason: Finished["finishReason"] = "length";
  let stop: string | undefined;
  const stops = [...sampling.stop, ...ends];
  const hold = Math.max(0, ...stops.map(({ length }) => length - 1));
  const finished = (): Finished => ({
    finishReason,
    stop,
    promptTokens: prompt.length,
    completionTokens: tokens.length,
  });
  if (limit === 0) return finished();
  await readPrompt(sequence, prompt, signal);
  const source = sequence.evaluate(prompt.slice(sequence.nextTokenIndex), {
    ...samplingOptions(sampling, () => tokens.slice(-penaltyWindow)),
    ...grammarState(model, grammar),
    yieldEogToken: true,
  });
  for await (const token of source) {
    if (signal.aborted) break;
    if (model.isEogToken(token)) {
      finishReason = "stop";
      break;
    }
    tokens.push(token);
    window.push(token);
    text = model.detokenize(window, false, before);
    const found = firstStop(text, stops, sent - hold);
    if (found !== undefined) {
      finishReason = "stop";
      if (sampling.stop.includes(found.stop)) stop = found.stop;
      if (found.at > sent) yield { content: text.slice(sent, found.at) };
      return finished();
    }
    // Half a character, or the possible beginning of a stop sequence, waits for the next token.
    const safe = text.endsWith("\uFFFD") ? sent : text.length - heldBack(text, stops);
    if (safe > sent) {
      yield { content: text.slice(sent, safe) };
      sent = safe;
    }
    if (tokens.length >= limit) break;
    if (sent === text.length && window.length >= windowTokens) {
      before = window;
      window = [];
      text = "";
      sent = 0;
    }
  }
  if (text.length > sent) yield { content: text.slice(sent) };
  return finished();
}

/**
 * Reads all of a prompt but its last token, which evaluation needs. The state of an earlier request is kept as far as the
 * prompts agree: a continued chat is not read again. Rejects within one batch when `signal` aborts.
 */
export async function readPrompt(
  sequence: Pick<LlamaContextSequence, "adaptStateToTokens" | "nextTokenIndex" | "evaluateWithoutGeneratingNewTokens">,
  prompt: readonly Token[],
  signal: AbortSignal,
): Promise<void> {
  const last = prompt.length - 1;
  await sequence.adaptStateToTokens(prompt.slice(0, last), false);
  while (sequence.nextTokenIndex < last) {
    signal.throwIfAborted();
    const end = Math.min(sequence.nextTokenIndex + batchTokens, last);
    await sequence.evaluateWithoutGeneratingNewTokens(prompt.slice(sequence.nextTokenIndex, end));
  }
}

/**
 * The number of tokens that fit after a prompt; `reserved` ones stay free. The last token of an answer is not read, so
 * that it needs no room. Throws Refusal when none fits.
 */
export function tokenLimit(
  sequence: LlamaContextSequence,
  promptTokens: number,
  { maxTokens }: Sampling,
  reserved = 0,
): number {
  const room = sequence.contextSize - promptTokens - reserved;
  if (room < 1) throw contextExceeded(promptTokens, sequence.contextSize - reserved);
  return Math.min(maxTokens ?? room, room);
}

/** Sampling options in the library's form. */
export function samplingOptions(sampling: Sampling, recent: () => Token[]): SequenceEvaluateOptions {
  const { temperature, topP, topK, minP, seed, penalties } = sampling;
  return {
    temperature,
    topP,
    ...(topK === undefined ? {} : { topK }),
    minP,
    seed,
    ...(penalties === undefined
      ? {}
      : {
          repeatPenalty: {
            punishTokens: recent,
            penalty: penalties.repeat,
            frequencyPenalty: penalties.frequency,
            presencePenalty: penalties.presence,
          },
        }),
  };
}

/** One state per answer. Throws Refusal when llama.cpp cannot read the grammar. */
function grammarState(model: LlamaModel, grammar: LlamaGrammar | undefined): SequenceEvaluateOptions {
  if (grammar === undefined) return {};
  try {
    return { grammarEvaluationState: new LlamaGrammarEvaluationState({ model, grammar }) };
  } catch (error) {
    throw new Refusal(400, `the grammar cannot be read: ${errorMessage(error)}`);
  }
}

/** The stop sequence that begins first in `text`, and its place; of several at one place, the client's first. */
function firstStop(text: string, stops: readonly string[], from: number): { at: number; stop: string } | undefined {
  let first: { at: number; stop: string } | undefined;
  for (const stop of stops) {
    const at = text.indexOf(stop, Math.max(0, from));
    if (at >= 0 && (first === undefined || at < first.at)) first = { at, stop };
  }
  return first;
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
