import type { EngineImages, EngineLock } from "../api/engine-images.ts";
import type { RuntimeKind } from "../api/names.ts";
import type { SlotSpec } from "../api/slot.ts";
import type { PublishedSlot } from "../api/status.ts";
import type { Observed } from "../api/workload.ts";
import type { EngineHost, EngineRefusal, Placement, ServerDevice } from "../engines/engine.ts";
import { backendOf, type Devices } from "../engines/placement.ts";
import type { World } from "./world.ts";

/** What this installation can do with containers. */
export interface Containers {
  /** False while no daemon answers; also when none ever has. */
  isAnswering(): boolean;
  /** What the machine has; for a slot that runs, what it had when that was placed. */
  devicesFor(slot: string, isRunning: boolean): Devices;
  /** Bytes that engines may use of this machine's memory, and of its largest GPU; absent, undefined: not known. */
  memory?(): NonNullable<Placement["memory"]>;
  /** Tells that a daemon has come or gone, or that the machine was seen to have other devices. */
  watch(onChange: () => void): Disposable;
  /** Shipped or configured, read at start. */
  readonly images: EngineImages;
  /** Grows as images without a digest are first pulled. */
  lock(): EngineLock;
  /** Notes the digest that an image named without one had. */
  remember(image: string, digest: string): Promise<void>;
}

export interface Placed {
  readonly placement: Placement;
  /** Why, for status. */
  readonly reasons: { readonly runtime: string; readonly backend: string };
  /** The runtime that the slot asks for is not there. */
  readonly refusal?: EngineRefusal;
}

/**
 * Where a slot runs. `auto` is decided when nothing of the slot runs, and kept as long as something does; a daemon that
 * does not answer never changes it (DECISIONS 2).
 */
export function place(
  world: Pick<World, "containers" | "defaultRuntime" | "host">,
  name: string,
  spec: SlotSpec,
  before: PublishedSlot | undefined,
  observed: readonly Observed[],
): Placed {
  const { containers } = world;
  const isRunning = observed.some(({ phase }) => phase === "running");
  const backend = backendOf(spec, containers.devicesFor(name, isRunning));
  const { images } = containers;
  const memory = containers.memory?.();
  const base = { images, lock: containers.lock() };
  const asked = spec.runtime === "auto" ? world.defaultRuntime : spec.runtime;
  const wasOnCpu = before?.status.backend === "cpu";
  const placed = (runtime: RuntimeKind, reason: string, refusal?: EngineRefusal): Placed => {
    const program = runtime === "process" && (!isRunning || wasOnCpu) ? processorOnly(spec, world.host) : undefined;
    const { value, reason: why } = program ?? backend;
    const gpuBytes =
      runtime === "process" ? (largest(world.host.server?.devices) ?? memory?.gpuBytes) : memory?.gpuBytes;
    return {
      placement: { ...base, backend: value, runtime, memory: { hostBytes: memory?.hostBytes, gpuBytes } },
      reasons: { runtime: reason, backend: why },
      ...(refusal === undefined ? {} : { refusal }),
    };
  };
  const source = spec.runtime === "auto" ? "SVC_RUNTIME" : "the spec";
  switch (asked) {
    case "process":
      return placed("process", source);
    case "docker":
      return placed("docker", source);
    case "kubernetes":
      return placed("process", source, missing(asked));
    case "auto":
      break;
    default:
      asked satisfies never;
  }
  const kept = keptRuntime(before, observed, containers);
  if (kept !== undefined) return placed(kept, before?.status.decisions["runtime"]?.reason ?? "what it ran in before");
  if (!containers.isAnswering()) return placed("process", "no container engine answers");
  const hasImage =
    spec.image !== undefined || (spec.command === undefined && images[spec.engine]?.[backend.value] !== undefined);
  return hasImage
    ? placed("docker", "a container engine answers and there is an image")
    : placed("process", "there is no image for it");
}

/** The program that runs the slot as a process computes on no GPU, whatever the machine has. */
function processorOnly(
  { engine, backend, command }: SlotSpec,
  host: EngineHost,
): { readonly value: "cpu"; readonly reason: string } | undefined {
  if (engine !== "llama" || backend !== "auto" || command !== undefined) return undefined;
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
  before: PublishedSlot | undefined,
  observed: readonly Observed[],
  containers: Containers,
): RuntimeKind | undefined {
  const running = observed.find(({ phase }) => phase === "running");
  if (running !== undefined) return runtimeOf(running);
  const wasDocker = before?.status.runtime === "docker" && before.status.state !== "offline";
  return wasDocker && !containers.isAnswering() ? "docker" : undefined;
}

/** The runtime in which something was seen. */
export function runtimeOf({ id }: Pick<Observed, "id">): RuntimeKind {
  if ("pid" in id) return "process";
  return "containerId" in id ? "docker" : "kubernetes";
}

function missing(runtime: RuntimeKind): EngineRefusal {
  return { reason: "NoRuntime", message: `runtime ${runtime} is not available here` };
}
