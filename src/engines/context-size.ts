import { cacheTypesOf, contextBytes, usualContext } from "../api/context-cost.ts";
import type { Derived, SlotInputs } from "./engine.ts";
import { isOnGpu } from "./gpu-use.ts";
import { isServer } from "./llama-program.ts";
import { sharesCache } from "./llama-settings.ts";

/** The largest derived context: enough for long chats, and each place takes its own share of memory. */
const most = 32_768;
/** The context where the model's shape or the memory is not known. */
const unknown = 8192;
/** The default of the embedded engine (engines/src/llama.ts). */
const embedded = 4096;
/** Less than this is too short for a chat; a smaller model keeps its own context. */
const least = 4096;
/** The divisor of the memory that derived contexts may take: weights, buffers and other slots need the rest. */
const part = 4;

/** Part of the memory that stays free beside weights and contexts, for buffers. */
const spare = 0.1;

/** Flags and variables by which a manifest sets the whole context itself. */
export const contextFlag = { words: ["-c", "--ctx-size"], variable: "LLAMA_ARG_CTX_SIZE" };

/**
 * Tokens of context for each request of a llama slot, with the reason; undefined where the manifest's own arguments
 * decide.
 */
export function contextSizeOf(input: SlotInputs): { readonly tokens: number; readonly reason: string } | undefined {
  const { spec, model, placement } = input;
  const { contextSize, parallel } = spec.model;
  if (contextSize !== undefined) return { tokens: contextSize, reason: "the spec" };
  if (spec.args.some((word) => contextFlag.words.includes(word)) || spec.env[contextFlag.variable] !== undefined)
    return undefined;
  const longest = model?.contextLength;
  // Every model that llama.cpp loads has this key: for other formats the engine decides.
  if (longest === undefined) return undefined;
  if (!isServer(input)) return { tokens: Math.min(longest, embedded), reason: "the embedded engine's own" };
  const cost = model?.contextCost;
  const budget = isOnGpu(input) ? placement.memory?.gpuBytes : placement.memory?.hostBytes;
  if (cost === undefined || budget === undefined) {
    const missing = cost === undefined ? "the model's shape" : "the memory";
    return { tokens: Math.min(longest, unknown), reason: `${missing} is not known; the model's longest is ${longest}` };
  }
  const free = Math.max(0, budget * (1 - spare) - (model?.sizeBytes ?? 0));
  const limit = Math.min(budget / part, free);
  const use = {
    ...usualContext,
    places: parallel,
    isUnified: sharesCache(parallel),
    ...cacheTypesOf(spec.args, spec.env),
  };
  const isTooLarge = (each: number): boolean =>
    contextBytes(cost, { ...use, contextTokens: Math.min(longest, each) * parallel }) > limit;
  let each = most;
  while (each > least && isTooLarge(each)) each /= 2;
  const tokens = Math.min(longest, each);
  const places = parallel === 1 ? "" : ` for each of ${parallel} requests at once`;
  const where = isOnGpu(input) ? "the GPU's memory" : "the memory";
  return { tokens, reason: `of the model's ${longest}${places}: within a quarter of ${where}` };
}

/** For status; empty where a person set the value and it is in force. */
export function derivedContext(input: SlotInputs): Readonly<Record<string, Derived>> {
  const requested = input.spec.model.contextSize;
  const longest = input.model?.contextLength;
  // The flag keeps the manifest's value: the engine logs the value in force.
  if (requested !== undefined && longest !== undefined && requested > longest && !isServer(input)) {
    const reason = `context_size ${requested} is above the model's own ${longest}, beyond which the embedded engine gives none`;
    return { contextSize: { value: String(longest), reason } };
  }
  const found = contextSizeOf(input);
  if (found === undefined || requested !== undefined) return {};
  return { contextSize: { value: String(found.tokens), reason: found.reason } };
}
