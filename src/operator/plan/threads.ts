import type { SlotSpec } from "../../api/slot.ts";
import type { PublishedSlot } from "../../api/status.ts";
import type { Observed } from "../../api/workload.ts";
import type { Placement } from "../../engines/engine.ts";
import { gpuBackends } from "../../engines/gpu-use.ts";
import type { Machine } from "./placing.ts";
import type { SlotInput } from "./input.ts";
import type { DesiredSource } from "../../store/store.ts";

interface ThreadsContext {
  readonly published: ReadonlyMap<string, PublishedSlot>;
  /** Where the hardware is not known. */
  readonly cores: number;
  readonly machine: Pick<Machine, "cores">;
  readonly source: Pick<DesiredSource, "list">;
}

/** Where its machine is not known: on a smaller one more threads than cores wait for each other. */
const threadsElsewhere = 4;

type Placed = Pick<Placement, "backend" | "runs" | "isElsewhere" | "isOnThisMachine">;

/**
 * Threads for each engine: one core stays free for the rest, the others are shared by llama processes that compute on
 * the processor at the same time: those of always loaded slots, and those that are loaded now (with more threads than
 * cores llama.cpp's spin-waiting makes it hundreds of times slower). A container has no more than its limit of
 * processors, and a Pod without one, on a machine that nobody has measured, few. Kept while the slot is loaded.
 */
export function threadsOf(
  dependencies: ThreadsContext,
  name: string,
  spec: SlotSpec | undefined,
  placement: Placed | undefined,
  observed: readonly Observed[],
): SlotInput["threads"] {
  if (spec?.model.threads !== undefined) return { value: spec.model.threads, reason: "the spec" };
  const before = dependencies.published.get(name);
  const kept = before?.status.decisions["threads"];
  // Added replicas share the cores with the running ones.
  const isScaled = (before?.spec.replicas ?? 1) < (spec?.replicas ?? 1);
  if (kept !== undefined && !isScaled && observed.some(({ phase }) => phase === "running")) {
    return { value: Number(kept.value), reason: kept.reason };
  }
  const limit = placement?.runs === "image" ? spec?.resources.cpus : undefined;
  const isElsewhere = placement?.isElsewhere === true && placement.isOnThisMachine !== true;
  const limited = limit === undefined ? Infinity : Math.max(1, Math.floor(limit));
  // The cluster places the Pod where its limit can be had: this machine's cores say nothing about that.
  if (isElsewhere && limit !== undefined) return { value: limited, reason: limitReason(limit) };
  const shared = sharedThreads(dependencies, name, spec, placement?.backend);
  if (limit !== undefined && limited < shared.value) return { value: limited, reason: limitReason(limit) };
  if (!isElsewhere) return shared;
  const value = Math.min(threadsElsewhere, shared.value);
  const of = value < threadsElsewhere ? `${shared.reason}, as the operator's node has them` : `${value} are few enough`;
  const advice = "resources.cpus or model.threads gives it more";
  return { value, reason: `the cores of its Pod's node are not known (${of}): ${advice}` };
}

function limitReason(cpus: number): string {
  return `resources.cpus allows ${cpus} ${cpus === 1 ? "core" : "cores"}: more threads would wait for each other`;
}

/** The threads on this machine. */
function sharedThreads(
  dependencies: ThreadsContext,
  name: string,
  spec: SlotSpec | undefined,
  backend: string | undefined,
): SlotInput["threads"] {
  const cores = dependencies.machine.cores?.() ?? { count: dependencies.cores, what: `${dependencies.cores} cores` };
  const most = Math.max(1, cores.count - 1);
  const all = `${cores.what}, less one`;
  // Only llama.cpp gets a number; counting the sharing processes is expensive with a thousand slots.
  if (spec?.engine !== "llama") return { value: most, reason: all };
  if (isWhollyOnGpu(spec, undefined, backend))
    return { value: most, reason: `${all}; on a GPU it shares them with none` };
  let share = llamaProcesses(spec);
  for (const other of dependencies.source.list("Slot")) {
    if (other.name === name || other.spec === undefined) continue;
    const published = dependencies.published.get(other.name);
    if (!isLoadedBeside(other.spec, published) || isWhollyOnGpu(other.spec, published, backend)) continue;
    share += llamaProcesses(other.spec);
  }
  share = Math.max(1, share);
  const value = Math.max(1, Math.floor(most / share));
  const who = share === 1 ? "which no other process of llama.cpp shares" : `shared by ${share} processes of llama.cpp`;
  return { value, reason: `${all}, ${who}` };
}

/** The number of llama.cpp processes of that slot, by its spec (DECISIONS 2). */
function llamaProcesses(spec: SlotSpec): number {
  if (!spec.enabled || spec.engine !== "llama" || spec.command !== undefined) return 0;
  return (spec.replicas ?? 1) + (spec.model.rerank === undefined ? 0 : 1);
}

/** An unloaded on-demand slot counts at its own next load: until then it slows no other down. */
function isLoadedBeside({ load }: SlotSpec, published: PublishedSlot | undefined): boolean {
  return load === "always" || (published?.status.processes.length ?? 0) > 0;
}

/** No layer is on the processor: by the engine's report, else by the spec. */
function isWhollyOnGpu(spec: SlotSpec, published: PublishedSlot | undefined, otherwise: string | undefined): boolean {
  const compute = published?.status.compute;
  if (compute?.layersTotal !== undefined) {
    return compute.devices.length > 0 && (compute.layersOffloaded ?? 0) >= compute.layersTotal;
  }
  const backend = published?.status.backend ?? (spec.backend === "auto" ? otherwise : spec.backend);
  if (backend === undefined || !gpuBackends.has(backend)) return false;
  return spec.model.spill !== "allow" && spec.model.gpuLayers === undefined;
}
