import { estimate, logitsOf, type DeviceNeed, type Estimate } from "./estimate.ts";
import type { FitSettings } from "./settings.ts";
import type { ModelShape } from "./shape.ts";

const mebibyte = 1024 ** 2;
/** Figures are rounded down to mebibytes: on average half a mebibyte is missing. */
const cut = mebibyte / 2;

/**
 * Flags of a launch line that `llama-fit-params` accepts and that decide memory, with the kind of their value. The
 * program fails on an unknown flag.
 */
const taken: Readonly<Record<string, boolean>> = {
  "--model": true,
  "-c": true,
  "--ctx-size": true,
  "-b": true,
  "--batch-size": true,
  "-ub": true,
  "--ubatch-size": true,
  "-ngl": true,
  "--gpu-layers": true,
  "--n-gpu-layers": true,
  "-ctk": true,
  "--cache-type-k": true,
  "-ctv": true,
  "--cache-type-v": true,
  "-fa": true,
  "--flash-attn": true,
  "--swa-full": false,
  "-nkvo": false,
  "--no-kv-offload": false,
  "-ot": true,
  "--override-tensor": true,
  "-cmoe": false,
  "--cpu-moe": false,
  "-ncmoe": true,
  "--n-cpu-moe": true,
  "-ts": true,
  "--tensor-split": true,
  "-sm": true,
  "--split-mode": true,
  "-mg": true,
  "--main-gpu": true,
  "-dev": true,
  "--device": true,
};

/**
 * The arguments with which `llama-fit-params` prints the memory of a launch line of `llama-server`; undefined if the
 * program cannot: it has no shared cache, which equals the cache of a single request except for layers with windows.
 */
export function printArguments(
  words: readonly string[],
  settings: FitSettings,
  shape: ModelShape,
): readonly string[] | undefined {
  const isShared = settings.isUnified && settings.places > 1;
  if (isShared && shape.window !== undefined) return undefined;
  const kept: string[] = [];
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? "";
    const hasValue = taken[word];
    if (hasValue === undefined) continue;
    kept.push(word);
    if (hasValue) kept.push(words[++index] ?? "");
  }
  // An embedding server reads no more tokens at once than it computes at once.
  const batch = settings.isEmbedding ? ["--batch-size", String(settings.batch)] : [];
  return [...kept, ...batch, "--parallel", String(isShared ? 1 : settings.places), "--fit-print", "on"];
}

/** Reads a line for each device: name, weights, context and work in MiB. */
function readPrint(text: string): ReadonlyMap<string, { model: number; context: number; compute: number }> {
  const found = new Map<string, { model: number; context: number; compute: number }>();
  for (const [, id = "", model, context, compute] of text.matchAll(/^(\S+) (\d+) (\d+) (\d+) *$/gm)) {
    const bytes = (value: string | undefined): number => {
      const whole = Number(value) * mebibyte;
      return whole === 0 ? 0 : whole + cut;
    };
    found.set(id, { model: bytes(model), context: bytes(context), compute: bytes(compute) });
  }
  return found;
}

/**
 * Replaces the estimate's figures by those of the engine's own allocator. Some figures differ from the server's: weights
 * that are rearranged for the processor and projectors are missing, and the allocator reserves an output for every token
 * of a batch, while a chat server has one output for each request.
 */
export function engineEstimate(text: string, shape: ModelShape, settings: FitSettings): Estimate | undefined {
  const printed = readPrint(text);
  const host = printed.get("Host");
  // The program has printed another text.
  if (host === undefined) return undefined;
  const known = estimate(shape, settings);
  const answers = logitsOf(shape, { ...settings, isEmbedding: true });
  const work = (said: number, { compute }: DeviceNeed): number =>
    settings.isEmbedding || said > answers + compute ? said : Math.min(said, compute);
  const gpus = [...printed].flatMap(([id, said]) => {
    if (id === "Host") return [];
    const before = known.gpus.find((gpu) => gpu.id === id);
    if (before === undefined) return [];
    const weights = said.model + (settings.gpus[0]?.id === id ? settings.projectorBytes : 0);
    return [{ ...before, weights, cache: said.context, compute: work(said.compute, before) }];
  });
  if (gpus.length !== known.gpus.length) return undefined;
  const isAlone = gpus.length === 0;
  return {
    host: {
      ...known.host,
      weights: isAlone ? known.host.weights : host.model,
      cache: host.context,
      compute: work(host.compute, known.host),
    },
    gpus,
    mappedBytes: isAlone ? known.mappedBytes : host.model,
    unusedMappedBytes: isAlone ? known.unusedMappedBytes : 0,
  };
}
