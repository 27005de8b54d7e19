import type { SlotInputs } from "./engine.ts";

/** Backends that compute on a GPU. */
export const gpuBackends: ReadonlySet<string> = new Set(["cuda", "rocm", "vulkan"]);

/** Whether the slot's backend computes on a GPU. */
export function isOnGpu({ placement }: Pick<SlotInputs, "placement">): boolean {
  return gpuBackends.has(placement.backend);
}

/**
 * Variables that hide every GPU from a process, also one that its driver would offer by default: CUDA
 * (https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables), ROCm
 * (https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html, where no GPU has the number -1), and llama.cpp's
 * Vulkan.
 */
const hidden = {
  CUDA_VISIBLE_DEVICES: "",
  HIP_VISIBLE_DEVICES: "-1",
  ROCR_VISIBLE_DEVICES: "",
  GGML_VK_VISIBLE_DEVICES: "",
} as const;

/**
 * Variables that keep a slot off the GPU that should compute on the processor. A foreign command or engine may need a
 * GPU that no backend names: it is kept off only where the manifest says `backend = "cpu"`. The manifest's own `env`
 * takes precedence.
 */
export function gpuHidingEnv({ spec, placement }: SlotInputs): Readonly<Record<string, string>> {
  const isOurs = spec.engine === "llama" && spec.command === undefined;
  const isWanted = spec.backend === "cpu" || (isOurs && placement.backend === "cpu");
  if (!isWanted) return {};
  // Images for CUDA request every GPU by this variable, where NVIDIA's runtime is the daemon's default.
  return placement.runs === "program" ? hidden : { ...hidden, NVIDIA_VISIBLE_DEVICES: "void" };
}

/** Variables of a manifest that decide which GPUs an engine sees. */
export function ownGpuVariables({ spec }: Pick<SlotInputs, "spec">): readonly string[] {
  return Object.keys(spec.env).filter((name) => name in hidden);
}
