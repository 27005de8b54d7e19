import { stepProcess, type Step } from "../../api/plan.ts";
import { isSameProcess, type ProcessRef } from "../../api/process-ref.ts";
import type { SlotState } from "../../api/states.ts";
import type { PublishedSlot } from "../../api/status.ts";
import type { Observed, Workload } from "../../api/workload.ts";
import { isRefusal } from "../../engines/engine.ts";
import { at, healthOf, requestOf, type SlotInput } from "./input.ts";
import type { Verdict } from "./verdict.ts";

/** An engine that was ready for this long and ends has not failed to start (DECISIONS 9). */
export const steadyMs = 60_000;

/** An engine could not allocate memory, the machine's or a GPU's. */
export const memoryReason = "OutOfMemory";

/** A model is too large for a device: a person must change something. */
export const doesNotFit = "DoesNotFit";

/** A model would fit on a device without other users: that may change by itself. */
export const noMemory = "NoMemory";

/** A model would fit on a device but for the memory that slots which are being loaded will take. */
export const memoryReserved = "MemoryReserved";

/** One rule: its verdict when it applies, undefined when it does not. */
export type Check = (input: SlotInput) => Verdict | undefined;

/** Running processes, ready or not. */
export const running = (input: SlotInput): readonly Observed[] =>
  input.observed.filter(({ phase }) => phase === "running");

/** The published state. */
export const wasState = (input: SlotInput): SlotState => input.before?.status.state ?? "offline";

/** The process in the published status. */
export const publishedProcess = (
  input: SlotInput,
  process: ProcessRef,
): PublishedSlot["status"]["processes"][number] | undefined =>
  input.before?.status.processes.find((each) => isSameProcess(each, process));

/** When a process started, in milliseconds since the epoch, by the present setting of the clock. */
export function startOf(input: Pick<SlotInput, "health">, process: Observed): number {
  return (healthOf(input, process)?.startedAt ?? process.startedAt).getTime();
}

/** Whether a process existed at the time of the request, also where the clock was set since. */
export function wasThere(input: Pick<SlotInput, "health">, process: Observed, requestedAt: string): boolean {
  return Math.min(process.startedAt.getTime(), startOf(input, process)) < at(requestedAt);
}

/** The workloads to run; empty where they are refused. */
export function workloadsOf(input: SlotInput): readonly Workload[] {
  return isRefusal(input.workloads) ? [] : input.workloads;
}

/** The workloads to start: no process of them exists, not even an exited one. */
export function needsStart(input: SlotInput): readonly Workload[] {
  return workloadsOf(input).filter((workload) => !input.observed.some((process) => isSameProcess(process, workload)));
}

/**
 * Failures that still count: none from before an edit, a restart or a load by request, or a clock that was set back;
 * none for want of memory from before another slot released memory.
 */
export function failuresInForce(input: SlotInput): number {
  const { before } = input;
  if (before === undefined || before.specHash !== input.specHash || isOtherModel(input)) return 0;
  const requestedAt = Math.max(at(requestOf(input, "restart")?.requestedAt), at(requestOf(input, "load")?.requestedAt));
  const failedAt = at(before.status.lastError?.time);
  const now = input.now.getTime();
  const freedAt = at(input.freedAt);
  if (before.status.lastError?.reason === memoryReason && freedAt > failedAt && freedAt <= now) return 0;
  return requestedAt > failedAt || failedAt > now ? 0 : before.status.failures;
}

/** Another model than the one that is published was chosen just now: the slot's failures are not its own. */
export function isOtherModel({ before, onRequest }: Pick<SlotInput, "before" | "onRequest">): boolean {
  const known = before?.status.onRequest;
  return known !== undefined && onRequest !== undefined && known.chosen !== onRequest.chosen;
}

/** The steps that stop these processes. */
export function stop(processes: readonly Observed[], reason: string): Step[] {
  return processes.map((process) => ({ do: "stop", ...stepProcess(process), reason }));
}

/**
 * The same for processes that have answered their requests: an engine that is well, and has none in flight, saves its
 * context first where the slot keeps it.
 */
export function stopAfterUse(input: SlotInput, processes: readonly Observed[], reason: string): Step[] {
  const isKept = input.isDeclared && input.spec?.model.keepContext !== undefined && input.demand.inFlight === 0;
  return processes.flatMap((process) => {
    const health = healthOf(input, process);
    const isWell = health?.isWarm === true && health.failures === 0 && health.lostAt === undefined;
    const saves = isKept && isWell && process.role === "main" && process.phase === "running";
    return stop([process], reason).map((step) => (saves ? { ...step, savesContext: true as const } : step));
  });
}

/** The step that starts this workload, with its launch line as a person would type it. */
export function start(workload: Workload, reason: string): Step {
  const command = workload.command
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : JSON.stringify(word)))
    .join(" ");
  return { do: "start", ...stepProcess(workload), port: workload.port, command, reason };
}
