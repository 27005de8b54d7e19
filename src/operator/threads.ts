import type { SlotSpec } from "../api/slot.ts";
import type { PublishedSlot } from "../api/status.ts";
import type { Observed } from "../api/workload.ts";
import { gpuBackends } from "../engines/gpu-use.ts";
import type { SlotInput } from "./input.ts";
import type { World } from "./world.ts";

/**
 * Threads for each engine: one core stays free for the rest, the others are shared by llama processes that compute on
 * the processor at the same time: those that are always loaded, and those that are loaded now (with more threads than
 * cores llama.cpp's spin-waiting makes it hundreds of times slower). Kept while the slot is loaded.
 */
export function threadsOf(
  world: Pick<World, "published" | "cores" | "source">,
  name: string,
  spec: SlotSpec | undefined,
  backend: string | undefined,
  observed: readonly Observed[],
): SlotInput["threads"] {
  if (spec?.model.threads !== undefined) return { value: spec.model.threads, reason: "the spec" };
  const kept = world.published.get(name)?.status.decisions["threads"];
  if (kept !== undefined && observed.some(({ phase }) => phase === "running")) {
    return { value: Number(kept.value), reason: kept.reason };
  }
  const most = Math.max(1, world.cores - 1);
  const all = `${world.cores} cores less one`;
  // Only llama.cpp is told how many; counting who shares is dear with a thousand slots.
  if (spec?.engine !== "llama") return { value: most, reason: all };
  if (isWhollyOnGpu(spec, undefined, backend))
    return { value: most, reason: `${all}; on a GPU it shares them with none` };
  let share = llamaProcesses(spec);
  for (const other of world.source.list("Slot")) {
    if (other.name === name || other.spec === undefined) continue;
    const published = world.published.get(other.name);
    if (!isLoadedBeside(other.spec, published) || isWhollyOnGpu(other.spec, published, backend)) continue;
    share += llamaProcesses(other.spec);
  }
  share = Math.max(1, share);
  const value = Math.max(1, Math.floor(most / share));
  const who = share === 1 ? "which no other process of llama.cpp shares" : `shared by ${share} processes of llama.cpp`;
  return { value, reason: `${all}, ${who}` };
}

/** How many processes of llama.cpp share the cores for that slot, as far as its spec tells (DECISIONS 2). */
function llamaProcesses(spec: SlotSpec): number {
  if (!spec.enabled || spec.engine !== "llama" || spec.command !== undefined) return 0;
  return spec.model.rerank === undefined ? 1 : 2;
}

/** An on-demand slot that is not loaded counts with its own next load: until then nobody is slowed down by it. */
function isLoadedBeside({ load }: SlotSpec, published: PublishedSlot | undefined): boolean {
  return load === "always" || (published?.status.processes.length ?? 0) > 0;
}

/** No layer is on the processor: as the engine told, else as the spec has it. */
function isWhollyOnGpu(spec: SlotSpec, published: PublishedSlot | undefined, otherwise: string | undefined): boolean {
  const compute = published?.status.compute;
  if (compute?.layersTotal !== undefined) {
    return compute.devices.length > 0 && (compute.layersOffloaded ?? 0) >= compute.layersTotal;
  }
  const backend = published?.status.backend ?? (spec.backend === "auto" ? otherwise : spec.backend);
  if (backend === undefined || !gpuBackends.has(backend)) return false;
  return spec.model.spill !== "allow" && spec.model.gpuLayers === undefined;
}
