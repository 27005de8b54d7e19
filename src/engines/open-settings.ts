import type { Derived, SlotInputs } from "./engine.ts";
import { isOnGpu } from "./gpu-use.ts";
import { isServer } from "./llama-program.ts";
import { isSpillForbidden } from "./llama-settings.ts";

/** Every way in which a manifest can set one of llama-server's settings beside its fields (its README, "Usage"). */
const ways = {
  gpuLayers: { words: ["-ngl", "--gpu-layers", "--n-gpu-layers"], variables: ["LLAMA_ARG_N_GPU_LAYERS"] },
  parallel: { words: ["-np", "--parallel"], variables: ["LLAMA_ARG_N_PARALLEL"] },
  flashAttention: { words: ["-fa", "--flash-attn"], variables: ["LLAMA_ARG_FLASH_ATTN"] },
  cacheTypes: {
    words: ["-ctk", "--cache-type-k", "-ctv", "--cache-type-v"],
    variables: ["LLAMA_ARG_CACHE_TYPE_K", "LLAMA_ARG_CACHE_TYPE_V"],
  },
} as const;

/**
 * For status: the settings of llama.cpp without a flag of their own in the launch line, each with the reason why the
 * engine's default is right. None where the manifest sets it.
 */
export function openSettings(input: SlotInputs): Readonly<Record<string, Derived>> {
  const { spec } = input;
  const open = (name: keyof typeof ways): boolean =>
    !ways[name].variables.some((variable) => spec.env[variable] !== undefined) &&
    !spec.args.some((word) => ways[name].words.some((known) => known === word));
  const server = isServer(input);
  return {
    ...(spec.model.gpuLayers === undefined && open("gpuLayers") ? { gpuLayers: layersOf(input) } : {}),
    ...(spec.model.parallel === 1 && open("parallel")
      ? { parallel: { value: "1", reason: "each further place takes a context of its own: model.parallel" } }
      : {}),
    ...(server && open("flashAttention")
      ? { flashAttention: { value: "auto", reason: "the engine uses it where its backend can" } }
      : {}),
    ...(server && open("cacheTypes")
      ? {
          cacheTypes: {
            value: "f16",
            reason: "the engine's own, without loss: -ctk and -ctv in args name smaller ones",
          },
        }
      : {}),
  };
}

function layersOf(input: SlotInputs): Derived {
  const { backend } = input.placement;
  if (!isOnGpu(input)) return { value: "0", reason: `the backend is ${backend}` };
  return isSpillForbidden(input)
    ? { value: "all", reason: `the backend is ${backend}, and what does not fit is refused: model.spill` }
    : {
        value: "auto",
        reason: `the backend is ${backend}, and the engine leaves on the host what does not fit: model.spill`,
      };
}
