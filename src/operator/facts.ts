import type { ProcessRole } from "../api/names.ts";
import type { Step } from "../api/plan.ts";
import type { SlotSpec } from "../api/slot.ts";
import type { SlotState } from "../api/states.ts";
import type { PublishedSlot } from "../api/status.ts";
import type { Observed, Workload } from "../api/workload.ts";
import { isRefusal } from "../engines/engine.ts";
import { at, requestOf, type SlotInput } from "./input.ts";
import type { Verdict } from "./verdict.ts";

/** An engine was refused memory, the machine's or a GPU's. */
export const memoryReason = "OutOfMemory";

/** One rule: what follows when it applies, undefined when it does not. */
export type Check = (input: SlotInput) => Verdict | undefined;

/** Processes that run, ready or not. */
export const running = (input: SlotInput): readonly Observed[] =>
  input.observed.filter(({ phase }) => phase === "running");

/** The state that is published now. */
export const wasState = (input: SlotInput): SlotState => input.before?.status.state ?? "offline";

/** The process of that role as it is published now. */
export const publishedProcess = (
  input: SlotInput,
  role: ProcessRole,
): PublishedSlot["status"]["processes"][number] | undefined =>
  input.before?.status.processes.find((process) => process.role === role);

/** When a process started, in milliseconds since the epoch, by the clock as it is set now. */
export function startOf({ health }: Pick<SlotInput, "health">, { role, startedAt }: Observed): number {
  return (health[role]?.startedAt ?? startedAt).getTime();
}

/** Whether a process was there when that was asked for, also where the clock was set since. */
export function wasThere(input: Pick<SlotInput, "health">, process: Observed, requestedAt: string): boolean {
  return Math.min(process.startedAt.getTime(), startOf(input, process)) < at(requestedAt);
}

/** What is to run; nothing where that is refused. */
export function workloadsOf(input: SlotInput): readonly Workload[] {
  return isRefusal(input.workloads) ? [] : input.workloads;
}

/** The process that the slot's state speaks of answers: whatever troubles a second one, the slot is ready. */
export function isMainServing(input: SlotInput): boolean {
  return (
    wasState(input) !== "unloading" &&
    running(input).some(({ role }) => role === "main") &&
    input.health.main?.isWarm === true
  );
}

/** What must be started: nothing of that role is there, not even one that has exited. */
export function needsStart(input: SlotInput): readonly Workload[] {
  return workloadsOf(input).filter(({ role }) => !input.observed.some((process) => process.role === role));
}

/**
 * Failures that still count: none from before an edit, a restart or a load that somebody asked for, or a clock that was
 * set back; none for want of memory from before another slot gave memory back.
 */
export function failuresInForce(input: SlotInput): number {
  const { before } = input;
  if (before === undefined || before.specHash !== input.specHash) return 0;
  const askedAt = Math.max(at(requestOf(input, "restart")?.requestedAt), at(requestOf(input, "load")?.requestedAt));
  const failedAt = at(before.status.lastError?.time);
  if (before.status.lastError?.reason === memoryReason && at(input.freedAt) > failedAt) return 0;
  return askedAt > failedAt || failedAt > input.now.getTime() ? 0 : before.status.failures;
}

/** The steps that stop these processes. */
export function stop(processes: readonly Observed[], reason: string): Step[] {
  return processes.map(({ role }) => ({ do: "stop", role, reason }));
}

/** The step that starts this workload, with its launch line as a person would type it. */
export function start(workload: Workload, reason: string): Step {
  const command = workload.command
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : JSON.stringify(word)))
    .join(" ");
  return { do: "start", role: workload.role, port: workload.port, command, reason };
}

/** A timer may fire this much before its time. */
export const earlyMs = 50;

/** When an engine is asked again, in milliseconds of the wall clock: on a whole second, where many are asked together. */
export function nextProbe(probedAtMs: number, { probe }: Pick<SlotSpec, "probe">): number {
  const intervalMs = probe.intervalSeconds * 1000;
  const atMs = probedAtMs + intervalMs;
  return intervalMs < 1000 ? atMs : Math.floor((atMs + earlyMs) / 1000) * 1000;
}
