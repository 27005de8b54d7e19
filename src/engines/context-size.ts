import type { Derived, SlotInputs } from "./engine.ts";
import { isOnGpu } from "./gpu-use.ts";
import { isServer } from "./llama-program.ts";

/** A context that nobody named ends here: enough for long chats, and each place takes its own share of memory. */
const most = 32_768;
/** Where the model's shape or the memory is not known. */
const unknown = 8192;
/** What the embedded engine takes (engines/src/llama.ts). */
const embedded = 4096;
/** Less than this is no chat; a model that has less has what it has. */
const least = 4096;
/** Part of the memory that contexts which nobody named may take: weights, buffers and other slots need theirs. */
const part = 4;

/** Part of the memory that stays free beside weights and contexts, for buffers. */
const spare = 0.1;

/** Flags and variables by which a manifest gives the whole context itself. */
const flags = ["-c", "--ctx-size"];
const variable = "LLAMA_ARG_CTX_SIZE";

/**
 * Tokens of context that each request of a llama slot gets, with the reason; undefined where the manifest leaves it to
 * its own arguments.
 */
export function contextSizeOf(input: SlotInputs): { readonly tokens: number; readonly reason: string } | undefined {
  const { spec, model, placement } = input;
  const { contextSize, parallel } = spec.model;
  if (contextSize !== undefined) return { tokens: contextSize, reason: "the spec" };
  if (spec.args.some((word) => flags.includes(word)) || spec.env[variable] !== undefined) return undefined;
  const longest = model?.contextLength;
  // No model that llama.cpp loads lacks it: whatever else this is, its engine knows better.
  if (longest === undefined) return undefined;
  if (!isServer(input)) return { tokens: Math.min(longest, embedded), reason: "the embedded engine's own" };
  const bytes = model?.contextBytesPerToken;
  const budget = isOnGpu(input) ? placement.memory?.gpuBytes : placement.memory?.hostBytes;
  if (bytes === undefined || budget === undefined) {
    const missing = bytes === undefined ? "the model's shape" : "the memory";
    return { tokens: Math.min(longest, unknown), reason: `${missing} is not known; the model's longest is ${longest}` };
  }
  const free = Math.max(0, budget * (1 - spare) - (model?.sizeBytes ?? 0));
  const room = Math.floor(Math.min(budget / part, free) / parallel / bytes);
  const tokens = Math.min(longest, most, Math.max(least, 2 ** Math.floor(Math.log2(Math.max(1, room)))));
  const places = parallel === 1 ? "" : ` for each of ${parallel} requests at once`;
  const where = isOnGpu(input) ? "the GPU's memory" : "the memory";
  return { tokens, reason: `of the model's ${longest}${places}: within a quarter of ${where}` };
}

/** For status; nothing where a person has said it, and it is so. */
export function derivedContext(input: SlotInputs): Readonly<Record<string, Derived>> {
  const asked = input.spec.model.contextSize;
  const longest = input.model?.contextLength;
  // The flag stays as it is written: the engine says in its log what it makes of it.
  if (asked !== undefined && longest !== undefined && asked > longest && !isServer(input)) {
    const reason = `context_size ${asked} is above the model's own ${longest}, beyond which the embedded engine gives none`;
    return { contextSize: { value: String(longest), reason } };
  }
  const found = contextSizeOf(input);
  if (found === undefined || asked !== undefined) return {};
  return { contextSize: { value: String(found.tokens), reason: found.reason } };
}
