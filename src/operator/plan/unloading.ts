import type { Step } from "../../api/plan.ts";
import { canMove, isAvailable } from "../../api/states.ts";
import type { SlotStatus } from "../../api/status.ts";
import type { Observed } from "../../api/workload.ts";
import { isRefusal } from "../../engines/engine.ts";
import { withoutPlace } from "./group.ts";
import { memoryReserved, noMemory, stop, wasState } from "./facts.ts";
import { at, isFromAhead, isOnCall, type SlotInput } from "./input.ts";
import { notFetched, notFound } from "./preparing.ts";
import { isServed } from "./decision.ts";
import { drain } from "./drain.ts";
import type { Verdict } from "./verdict.ts";

/** The reason of a replacement after a change of manifest, model or program. */
export const changed = "Changed";

/** The slot should not be loaded: its running processes leave. */
export function notWanted(input: SlotInput): Verdict | undefined {
  const { want } = input;
  if (want.load) return undefined;
  const { reason, message } = want;
  if (input.observed.length > 0) return leave(input, input.observed, reason, message);
  // Its engine has vanished: gateways that send to it learn that first, as of every slot that leaves.
  if (!canMove(wasState(input), "offline")) return { ...leave(input, [], reason, message), requeueMs: 0 };
  const isDeleted = reason === "Deleted" && { isDeleted: true as const };
  return { severity: "off", reason, message, steps: [], ...isDeleted };
}

/**
 * Unloads processes: gateways first (published `unloading`, confirmed and drained), then TERM. Engines that never
 * became ready have no requests and are stopped at once.
 */
export function leave(input: SlotInput, processes: readonly Observed[], reason: string, message: string): Verdict {
  const result = { severity: "leaving", reason, message } as const;
  const began = unloadingSince(input);
  const hasServed = isAvailable(began?.from ?? wasState(input));
  if (!hasServed || !processes.some(({ phase }) => phase === "running")) {
    return { ...result, steps: stop(processes, message) };
  }
  const since = began === undefined ? undefined : at(began.at);
  return { ...result, ...drain(input, { processes, message, since, deadline: stopDeadline(input, since) }) };
}

/** When the published unloading began, and from which state. */
export function unloadingSince({ before }: Pick<SlotInput, "before">): SlotStatus["transitions"][number] | undefined {
  if (before?.status.state !== "unloading") return undefined;
  return before.status.transitions.findLast(({ to }) => to === "unloading");
}

/**
 * When processes that leave are stopped whatever is in flight, in milliseconds since the epoch; `since`: when they began
 * to. Where the clock was set back, the elapsed time is unknown, and they are stopped now.
 */
export function stopDeadline({ now, spec }: Pick<SlotInput, "now" | "spec">, since = now.getTime()): number {
  return isFromAhead(since, now) ? now.getTime() : since + (spec?.stopSeconds ?? 30) * 1000;
}

/**
 * Without a next workload: keep the running one, or report that none is possible. A loading engine, or one that has
 * just ended, is left to the following checks.
 */
function withoutNext(input: SlotInput, reason: string, message: string, isTerminal: boolean): Verdict | undefined {
  const isOther = input.observed.some(({ role, phase }) => role === "main" || phase === "exited");
  if (isOther && !isServed(input)) return undefined;
  const steps: Step[] = isTerminal ? [] : [{ do: "wait", reason: message }];
  return { severity: isTerminal ? "stalled" : "retrying", reason, message, steps };
}

/** Another slot holds the manifest's fixed port. */
export function portConflict(input: SlotInput): Verdict | undefined {
  const conflict = input.conflicts.port;
  if (conflict === undefined) return undefined;
  const message = `port ${conflict.port} belongs to slot ${conflict.holder}`;
  return withoutNext(input, "PortConflict", message, true);
}

/** An obstacle to loading an on-demand slot is reported before the first request. */
export function cannotLoad(input: SlotInput): Verdict | undefined {
  const { want } = input;
  if (!isOnCall(want) || input.observed.length > 0) return undefined;
  return portConflict(input) ?? refused(input) ?? withoutPlace(input);
}

/** Ports become free without an edit, and so does memory. */
const waitable: ReadonlySet<string> = new Set(["NoFreePort", "PortInUse", noMemory, memoryReserved]);
const waitMs = 5000;

/** No port is free, the fixed one is taken, or others hold the memory: each may end by itself. */
export function noFreePort(input: SlotInput): Verdict | undefined {
  if (!isRefusal(input.workloads) || !waitable.has(input.workloads.reason)) return undefined;
  const { reason, message } = input.workloads;
  const verdict = withoutNext(input, reason, message, false);
  return verdict && { requeueMs: waitMs, ...verdict };
}

/** A person must change something before there can be a workload. */
export function refused(input: SlotInput): Verdict | undefined {
  if (!isRefusal(input.workloads)) return undefined;
  const { reason } = input.workloads;
  // A model that can be fetched, or that somebody pulls, is no reason for a refusal.
  if (reason === notFetched || (reason === notFound && input.unprepared !== undefined)) return undefined;
  return withoutNext(input, input.workloads.reason, input.workloads.message, true);
}
