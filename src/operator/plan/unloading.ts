import { stepProcess, type Step } from "../../api/plan.ts";
import type { ProcessRef } from "../../api/process-ref.ts";
import { canMove, isAvailable } from "../../api/states.ts";
import type { SlotStatus } from "../../api/status.ts";
import type { Observed } from "../../api/workload.ts";
import { isRefusal } from "../../engines/engine.ts";
import { withoutPlace } from "./group.ts";
import { isMainServing, memoryReserved, noMemory, stop, stopAfterUse, wasState } from "./facts.ts";
import { at, isFromAhead, isOnCall, type SlotInput } from "./input.ts";
import { notFetched, notFound } from "./preparing.ts";
import type { Decision } from "./decision.ts";

/** The reason of a replacement after a change of manifest, model or program. */
export const changed = "Changed";

/** The slot should not be loaded: its running processes leave. */
export function notWanted(input: SlotInput): Decision | undefined {
  const { want } = input;
  if (want.load) return undefined;
  const { reason, message } = want;
  if (input.observed.length > 0) return leave(input, input.observed, reason, message);
  // Its engine has vanished: gateways that send to it learn that first, as of every slot that leaves.
  if (!canMove(wasState(input), "offline")) return { ...leave(input, [], reason, message), requeueMs: 0 };
  const isDeleted = reason === "Deleted" && { isDeleted: true as const };
  return { state: "offline", conditionSet: "offline", reason, message, steps: [], ...isDeleted };
}

/**
 * Unloads processes: gateways first (published `unloading`, confirmed and drained), then TERM. Engines that never
 * became ready have no requests and are stopped at once.
 */
export function leave(input: SlotInput, processes: readonly Observed[], reason: string, message: string): Decision {
  const result = { state: "unloading", conditionSet: "unloading", reason, message } as const;
  const began = unloadingSince(input);
  const hasServed = isAvailable(began?.from ?? wasState(input));
  if (!hasServed || !processes.some(({ phase }) => phase === "running")) {
    return { ...result, steps: stop(processes, message) };
  }
  return { ...result, ...drained(input, processes, message, began === undefined ? undefined : at(began.at)) };
}

/** When the published unloading began, and from which state. */
export function unloadingSince({ before }: Pick<SlotInput, "before">): SlotStatus["transitions"][number] | undefined {
  if (before?.status.state !== "unloading") return undefined;
  return before.status.transitions.findLast(({ to }) => to === "unloading");
}

/**
 * The steps that stop `processes` once gateways, which know since `since`, have no requests at them, or at `only` that
 * one.
 */
export function drained(
  input: SlotInput,
  processes: readonly Observed[],
  message: string,
  since: number | undefined,
  only?: ProcessRef,
): Pick<Decision, "steps" | "requeueMs"> {
  const now = input.now.getTime();
  // Where the clock was set back, the elapsed time is unknown.
  const isOver = since !== undefined && isFromAhead(since, input.now);
  const deadline = isOver ? now : (since ?? now) + (input.spec?.stopSeconds ?? 30) * 1000;
  const { inFlight, seenRevision } = input.demand;
  const isReleased = since !== undefined && inFlight === 0 && seenRevision >= (input.before?.revision ?? 0);
  const stops = stopAfterUse(input, processes, message);
  if (isReleased || deadline <= now) return { steps: stops };
  const which = only === undefined ? {} : stepProcess(only);
  const drain: Step = { do: "drain", ...which, reason: message, deadline: new Date(deadline).toISOString() };
  return { steps: [drain, ...stops], requeueMs: deadline - now };
}

/**
 * Without a next workload: keep the running one, or report that none is possible. A loading engine, or one that has
 * just ended, is left to the following checks.
 */
function withoutNext(input: SlotInput, reason: string, message: string, isTerminal: boolean): Decision | undefined {
  const steps: Step[] = isTerminal ? [] : [{ do: "wait", reason: message }];
  if (isMainServing(input)) {
    return { state: "ready", conditionSet: isTerminal ? "loadedStalled" : "loadedRetrying", reason, message, steps };
  }
  if (input.observed.some(({ role, phase }) => role === "main" || phase === "exited")) return undefined;
  return { state: "error", conditionSet: isTerminal ? "stalled" : "retrying", reason, message, steps };
}

/** Another slot holds the manifest's fixed port. */
export function portConflict(input: SlotInput): Decision | undefined {
  const conflict = input.conflicts.port;
  if (conflict === undefined) return undefined;
  const message = `port ${conflict.port} belongs to slot ${conflict.holder}`;
  return withoutNext(input, "PortConflict", message, true);
}

/** An obstacle to loading an on-demand slot is reported before the first request. */
export function cannotLoad(input: SlotInput): Decision | undefined {
  const { want } = input;
  if (!isOnCall(want) || input.observed.length > 0) return undefined;
  return portConflict(input) ?? refused(input) ?? withoutPlace(input);
}

/** Ports become free without an edit, and so does memory. */
const waitable: ReadonlySet<string> = new Set(["NoFreePort", "PortInUse", noMemory, memoryReserved]);
const waitMs = 5000;

/** No port is free, the fixed one is taken, or others hold the memory: each may end by itself. */
export function noFreePort(input: SlotInput): Decision | undefined {
  if (!isRefusal(input.workloads) || !waitable.has(input.workloads.reason)) return undefined;
  const { reason, message } = input.workloads;
  const decision = withoutNext(input, reason, message, false);
  return decision && { requeueMs: waitMs, ...decision };
}

/** A person must change something before there can be a workload. */
export function refused(input: SlotInput): Decision | undefined {
  if (!isRefusal(input.workloads)) return undefined;
  const { reason } = input.workloads;
  // A model that can be fetched, or that somebody pulls, is no reason for a refusal.
  if (reason === notFetched || (reason === notFound && input.unprepared !== undefined)) return undefined;
  return withoutNext(input, input.workloads.reason, input.workloads.message, true);
}
