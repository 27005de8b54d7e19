import type { ProcessRole } from "../../api/names.ts";
import { isSameProcess, processKey, type ProcessRef } from "../../api/process-ref.ts";
import type { SlotSpec } from "../../api/slot.ts";
import type { Observed, Workload } from "../../api/workload.ts";
import { everyPortTaken, type EngineRefusal, type Placement } from "../../engines/engine.ts";
import type { Dependencies } from "../dependencies.ts";
import type { SlotInput } from "../plan/input.ts";

/** A process with its port of the host, where its runtime needs one. */
export interface Placed extends ProcessRef {
  readonly port: number | undefined;
}

/** Every process that the slot needs, in start order: only `main` has replicas. */
export function processesOf(roles: readonly ProcessRole[], { replicas = 1 }: Pick<SlotSpec, "replicas">): ProcessRef[] {
  const first = roles.map((role) => ({ role, ordinal: 0 }));
  const more = Array.from({ length: replicas - 1 }, (_, index) => ({ role: "main" as const, ordinal: index + 1 }));
  return [...first, ...more];
}

/** Distinguishes a refusal from ports. */
export function isRefused(ports: readonly Placed[] | EngineRefusal): ports is EngineRefusal {
  return !Array.isArray(ports);
}

/**
 * The possible processes, with a port each: a running process keeps its port, else the manifest's fixed one for the
 * first of its role, else a free one. Each role has one process at least, or all is refused: half a slot is not
 * started. Leases nothing.
 */
export function portsOf(
  dependencies: Pick<Dependencies, "ports" | "conflicts" | "published">,
  { slot, spec, addressing }: { slot: string; spec: SlotSpec; addressing: Placement["addressing"] },
  processes: readonly ProcessRef[],
  observed: readonly Observed[],
): readonly Placed[] | EngineRefusal {
  const placed: Placed[] = [];
  for (const process of processes) {
    if (!addressing.needsHostPort) {
      placed.push({ ...process, port: undefined });
      continue;
    }
    const { role, ordinal } = process;
    const fixed = role === "main" && ordinal === 0 ? spec.port : undefined;
    const holder = fixed === undefined ? undefined : dependencies.ports.holder(fixed);
    if (fixed !== undefined && holder !== undefined && holder !== processKey({ ...process, slot })) {
      const message = `port ${fixed} is in use by slot ${holder.split("/")[0]} until that one is stopped`;
      return { reason: "PortInUse", message };
    }
    const port =
      fixed ??
      observed.find((each) => isSameProcess(each, process) && each.phase === "running")?.port ??
      dependencies.ports.find({ ...process, slot }, takenBeside(dependencies, slot, placed, observed));
    if (port !== undefined) placed.push({ ...process, port });
  }
  const isWhole = processes.every(({ role }) => placed.some((each) => each.role === role));
  return isWhole ? placed : everyPortTaken;
}

/** Ports of processes to start that the slot does not hold yet. */
export function unleasedOf(
  { ports: leases }: Pick<Dependencies, "ports">,
  slot: string,
  placed: readonly Placed[],
  observed: readonly Observed[],
): SlotInput["unleased"] {
  return placed.flatMap(({ port, ...process }) => {
    const isRunning = observed.some((each) => isSameProcess(each, process) && each.phase === "running");
    const isLeased = port === undefined || leases.holder(port) === processKey({ ...process, slot });
    return isRunning || isLeased ? [] : [{ ...process, port }];
  });
}

/** One workload for each possible process, by an adapter that knows of one process per role. */
export function workloadsFor(
  placed: readonly Placed[],
  make: (ports: Partial<Record<ProcessRole, number>>, ordinal: number) => readonly Workload[] | EngineRefusal,
): readonly Workload[] | EngineRefusal {
  // A role of another ordinal gets some port: its workload is left out below.
  const some = Object.fromEntries(placed.map(({ role, port }) => [role, port]));
  const workloads: Workload[] = [];
  for (const [ordinal, wanted] of Map.groupBy(placed, (process) => process.ordinal)) {
    const made = make({ ...some, ...Object.fromEntries(wanted.map(({ role, port }) => [role, port])) }, ordinal);
    if ("reason" in made) return made;
    workloads.push(...made.filter((workload) => wanted.some((process) => isSameProcess(process, workload))));
  }
  return workloads;
}

/**
 * Ports that no automatic one may be: those that other manifests fix, those of other slots' published engines, started
 * or adopted, and those of this slot's other processes.
 */
function takenBeside(
  { conflicts, published }: Pick<Dependencies, "conflicts" | "published">,
  slot: string,
  placed: readonly Placed[],
  observed: readonly Observed[],
): ReadonlySet<number> {
  const taken = new Set(conflicts.portsFixedByOthers(slot));
  for (const { port } of placed) if (port !== undefined) taken.add(port);
  for (const { port, phase } of observed) if (phase === "running") taken.add(port);
  for (const [other, { status }] of published) {
    if (other !== slot) for (const { port } of status.processes) taken.add(port);
  }
  return taken;
}
