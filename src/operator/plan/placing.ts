import type { Runtimes, RuntimeTraits } from "../../runtimes/runtime.ts";
import type { HardwareFacts } from "../../api/hardware.ts";
import type { EngineImages, EngineLock } from "../../api/engine-images.ts";
import type { RuntimeKind, runtimeKinds } from "../../api/names.ts";
import type { SlotSpec } from "../../api/slot.ts";
import type { PublishedSlot } from "../../api/status.ts";
import type { Observed } from "../../api/workload.ts";
import type { EngineHost, EngineRefusal, Placement, ServerDevice } from "../../engines/engine.ts";
import { hostFor } from "../../engines/llama-program.ts";
import { backendOf, podBackend, type Devices } from "../../engines/placement.ts";

/** The facts of the machine for the choice of a backend and a size. */
export interface Machine {
  /**
   * The devices that decide an automatic backend. Of a running slot: those at the time when it last did not run, so
   * that a driver that is loaded meanwhile restarts no engine (DECISIONS 2).
   */
  devicesFor(slot: string, isRunning: boolean): Devices;
  /** Bytes that engines may use of this machine's memory, and of its largest GPU; absent, undefined: not known. */
  memory?(): NonNullable<Placement["memory"]>;
  /** As of the last probe; absent: not known. */
  facts?(): Pick<HardwareFacts, "memory" | "gpus"> & Partial<Pick<HardwareFacts, "cpu" | "drivers">>;
  /** Cores that engines may compute on, and which these are; absent, undefined: not known. */
  cores?(): { readonly count: number; readonly what: string } | undefined;
  /** Notifies that a probe has found other devices. */
  watch(onChange: () => void): Disposable;
}

/** Images of engines, and the digests of those that are named without one. */
export interface Images {
  /** Shipped or configured, read at start. */
  readonly shipped: EngineImages;
  /** Grows as images without a digest are first fetched. */
  lock(): EngineLock;
  /** Records the digest of an image that was named without one. */
  record(image: string, digest: string): Promise<void>;
}

export interface Placed {
  readonly placement: Placement;
  /** The reasons, for status. */
  readonly reasons: { readonly runtime: string; readonly backend: string };
  /** The slot's runtime does not exist here. */
  readonly refusal?: EngineRefusal;
}

/** The facts and settings of an installation for the choice of a runtime and a backend. */
export interface PlacingContext {
  readonly runtime: Runtimes;
  readonly machine: Machine;
  readonly images: Images;
  readonly defaultRuntime: (typeof runtimeKinds)[number];
  readonly host: EngineHost;
}

/**
 * Where a slot runs. `auto` is decided when no process of the slot runs, and kept as long as one does; a daemon that
 * does not answer never changes it (DECISIONS 2).
 */
export function place(
  dependencies: PlacingContext,
  name: string,
  spec: SlotSpec,
  before: PublishedSlot | undefined,
  observed: readonly Observed[],
): Placed {
  const { runtime, machine, images } = dependencies;
  const host = hostFor(spec, dependencies.host);
  const isRunning = observed.some(({ phase }) => phase === "running");
  const backend = backendOf(spec, machine.devicesFor(name, isRunning));
  const memory = machine.memory?.();
  const requested = spec.runtime === "auto" ? dependencies.defaultRuntime : spec.runtime;
  const wasOnCpu = before?.status.backend === "cpu";
  const placed = (traits: RuntimeTraits, reason: string, refusal = refusalOf(traits)): Placed => {
    const { kind, runs, addressing, inCluster, isElsewhere, isOnThisMachine } = traits;
    const isProgram = runs === "program";
    const program = isProgram && (!isRunning || wasOnCpu) ? processorOnly(spec, host) : undefined;
    const { value, reason: why } = isElsewhere === true ? podBackend(spec) : (program ?? backend);
    const gpuBytes = isProgram ? (largest(host.server?.devices) ?? memory?.gpuBytes) : memory?.gpuBytes;
    return {
      placement: {
        ...(inCluster === true ? { inCluster } : {}),
        ...(isElsewhere === true ? { isElsewhere } : {}),
        ...(isOnThisMachine === true ? { isOnThisMachine } : {}),
        images: images.shipped,
        lock: images.lock(),
        backend: value,
        runtime: kind,
        runs,
        addressing,
        // Each replica loads the model for itself.
        memory:
          isElsewhere === true
            ? { hostBytes: spec.resources.memoryBytes, gpuBytes: undefined }
            : { hostBytes: shareOf(memory?.hostBytes, spec), gpuBytes: shareOf(gpuBytes, spec) },
      },
      reasons: { runtime: reason, backend: why },
      ...(refusal === undefined ? {} : { refusal }),
    };
  };
  const fallback = traitsOf(runtime, runtime.alwaysThere);
  if (requested !== "auto") {
    const source = spec.runtime === "auto" ? "SVC_RUNTIME" : "the spec";
    const traits = runtime.traitsOf(requested);
    return traits === undefined ? placed(fallback, source, notHere(requested)) : placed(traits, source);
  }
  const kept = keptRuntime(runtime, before, observed);
  if (kept !== undefined)
    return placed(traitsOf(runtime, kept), before?.status.decisions["runtime"]?.reason ?? "what it ran in before");
  const offered = runtime.offered.map((kind) => traitsOf(runtime, kind));
  const [answering] = offered.filter(({ kind }) => runtime.answers(kind));
  const service = (answering ?? offered[0])?.service ?? "container engine";
  if (answering === undefined) return placed(fallback, `no ${service} answers`);
  const hasImage =
    spec.image !== undefined ||
    (spec.command === undefined && images.shipped[spec.engine]?.[backend.value] !== undefined);
  return hasImage
    ? placed(answering, `a ${service} answers and there is an image`)
    : placed(fallback, "there is no image for it");
}

function traitsOf(runtime: Runtimes, kind: RuntimeKind): RuntimeTraits {
  const traits = runtime.traitsOf(kind);
  if (traits === undefined) throw new Error(`there is no runtime ${kind} here`);
  return traits;
}

function shareOf(bytes: number | undefined, { replicas = 1 }: SlotSpec): number | undefined {
  return bytes === undefined ? undefined : Math.floor(bytes / replicas);
}

/** The program that runs the slot as a process supports no GPU, on any machine. */
function processorOnly(
  { engine, backend, command, program }: SlotSpec,
  host: EngineHost,
): { readonly value: "cpu"; readonly reason: string } | undefined {
  if (engine !== "llama" || backend !== "auto" || command !== undefined) return undefined;
  if (host.llamaServer === undefined && program === "llama-server") return undefined;
  if (host.llamaServer === undefined) return { value: "cpu", reason: "the embedded engine computes on the CPU only" };
  if (host.server?.devices?.length !== 0) return undefined;
  return { value: "cpu", reason: `${host.llamaServer} --list-devices names no GPU` };
}

function largest(devices: readonly ServerDevice[] | undefined): number | undefined {
  return devices === undefined || devices.length === 0
    ? undefined
    : Math.max(...devices.map(({ totalBytes }) => totalBytes));
}

function keptRuntime(
  runtime: Runtimes,
  before: PublishedSlot | undefined,
  observed: readonly Observed[],
): RuntimeKind | undefined {
  const running = observed.find(({ phase }) => phase === "running");
  if (running !== undefined) return runtimeOf(runtime, running);
  if (before === undefined || before.status.state === "offline") return undefined;
  const ranIn = runtime.kinds.find((kind) => kind === before.status.runtime);
  return ranIn === undefined || runtime.answers(ranIn) ? undefined : ranIn;
}

/** The runtime of an observed process. */
export function runtimeOf(runtime: Runtimes, { id }: Pick<Observed, "id">): RuntimeKind | undefined {
  return runtime.kinds.find((kind) => traitsOf(runtime, kind).identity in id);
}

function refusalOf({ refusal }: RuntimeTraits): EngineRefusal | undefined {
  return refusal === undefined ? undefined : { reason: "NoRuntime", message: refusal };
}

function notHere(runtime: RuntimeKind): EngineRefusal {
  return { reason: "NoRuntime", message: `runtime ${runtime} is not available here` };
}
