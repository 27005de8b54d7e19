import { compareProcesses, isSameProcess, processName, type ProcessRef } from "../../api/process-ref.ts";
import type { PublishedSlot } from "../../api/status.ts";
import type { Observed } from "../../api/workload.ts";
import { isRefusal } from "../../engines/engine.ts";
import { healthOf, type SlotDemand, type SlotInput } from "./input.ts";
import type { Verdict } from "./verdict.ts";
import { publishedProcess, running, wasState, workloadsOf } from "./facts.ts";

/** The input of a verdict about one process: its own part of the slot's, with its own failures. */
export interface ProcessInput extends SlotInput {
  readonly process: ProcessRef;
  /** The whole input, for the state of the slot's other processes. */
  readonly slot: SlotInput;
}

/** One rule about one process. */
export type ProcessCheck = (input: ProcessInput) => Verdict | undefined;

/** One input for each wanted or observed process. */
export function processInputs(input: SlotInput): readonly ProcessInput[] {
  const found = new Map<string, ProcessRef>();
  for (const process of [...workloadsOf(input), ...input.observed]) found.set(processName(process), process);
  // A single process has the whole input as its own.
  if (found.size === 1)
    for (const process of found.values()) return [{ ...processInput(input, process), demand: input.demand }];
  return [...found.values()].toSorted(compareProcesses).map((process) => processInput(input, process));
}

export function processInput(slot: SlotInput, { role, ordinal }: ProcessRef): ProcessInput {
  const process = { role, ordinal };
  const isOwn = (each: ProcessRef): boolean => isSameProcess(each, process);
  return {
    ...slot,
    process,
    slot,
    observed: slot.observed.filter(isOwn),
    workloads: isRefusal(slot.workloads) ? slot.workloads : slot.workloads.filter(isOwn),
    unleased: slot.unleased.filter(isOwn),
    before: withOwnFailures(slot.before, process),
    demand: demandOf(slot.demand, process),
  };
}

/** The slot's published state, with the failures of that process in place of the slot's. */
function withOwnFailures(before: PublishedSlot | undefined, process: ProcessRef): PublishedSlot | undefined {
  if (before?.status.processFailures === undefined) return before;
  const { failures: _failures, lastError: _error, nextRetryAt: _retry, ...status } = before.status;
  const own = before.status.processFailures.find((each) => isSameProcess(each, process));
  const { role: _role, ordinal: _ordinal, ...failures } = own ?? { failures: 0 };
  return { ...before, status: { ...status, ...failures } };
}

/** The gateways' requests at that process. */
function demandOf(demand: SlotDemand, process: ProcessRef): SlotDemand {
  const { inFlight = 0, lastByteAt = demand.lastByteAt } = demand.byProcess[processName(process)] ?? {};
  return { ...demand, inFlight, lastByteAt };
}

/** The main processes that answer, and that gateways may send to. */
export function answering(slot: SlotInput): readonly Observed[] {
  if (wasState(slot) === "unloading") return [];
  return running(slot).filter((process) => process.role === "main" && isAnswering(slot, process));
}

function isAnswering(slot: SlotInput, process: Observed): boolean {
  if (healthOf(slot, process)?.isWarm !== true || isUnhealthy(slot, process)) return false;
  return publishedProcess(slot, process)?.drainingSince === undefined;
}

/** A process that was ready fails its probes, or its socket is gone. */
export function isUnhealthy(slot: SlotInput, process: Observed): boolean {
  const health = healthOf(slot, process);
  if (health?.isWarm !== true) return false;
  return health.lostAt !== undefined || (slot.spec !== undefined && health.failures >= slot.spec.probe.failures);
}

/** The slot answers without this process. */
export function isServedByOthers({ slot, process }: ProcessInput): boolean {
  return answering(slot).some((other) => !isSameProcess(other, process));
}

/** Other processes do the same work, or will. */
export function hasReplicas({ slot, process }: ProcessInput): boolean {
  if (process.role !== "main") return false;
  const all = [...workloadsOf(slot), ...running(slot)];
  return all.some((other) => other.role === "main" && !isSameProcess(other, process));
}
