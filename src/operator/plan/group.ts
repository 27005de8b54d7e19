import { canMove } from "../../api/states.ts";
import type { SlotStatus } from "../../api/status.ts";
import { at, isFromAhead, isOnCall, type SlotInput } from "./input.ts";
import { drain } from "./drain.ts";
import { isRefusal } from "../../engines/engine.ts";
import { memoryReserved, needsStart, noMemory, stop, wasState } from "./facts.ts";
import { roomAwaited } from "./growth.ts";
import type { ProcessInput } from "./processes.ts";
import type { Verdict } from "./verdict.ts";

/** The slot was preempted for another one of its group. */
const preemptedReason = "Preempted";
export const lentReason = "Lent";
const groupFullReason = "GroupFull";
const leavingReasons: ReadonlySet<string> = new Set([preemptedReason, lentReason]);
const groupPendingReason = "GroupPending";
const memoryHeldReason = "MemoryHeld";

/** A place that the slot keeps causes no event when the group has decided about another need. */
const undecidedRequeueMs = 50;

/**
 * When the slot last began to leave for another, milliseconds since the epoch; 0: never, or before the clock was set
 * back.
 */
export function preemptedAt({ before, now }: Pick<SlotInput, "before" | "now">): number {
  const moved = before?.status.transitions.findLast(
    ({ to, reason }) => to === "unloading" && leavingReasons.has(reason),
  );
  const time = at(moved?.at);
  return isFromAhead(time, now) ? 0 : time;
}

/** The published unloading, if it is one for another slot. */
export function preemption(status: SlotStatus | undefined): SlotStatus["transitions"][number] | undefined {
  if (status?.state !== "unloading") return undefined;
  const began = status.transitions.findLast(({ to }) => to === "unloading");
  return began !== undefined && leavingReasons.has(began.reason) ? began : undefined;
}

/**
 * The slot leaves for another one of its group. Gateways send no new request once they know; requests in flight are waited
 * for without a limit, unless the engine hangs: no request is lost to a swap.
 */
export function preempted(input: SlotInput): Verdict | undefined {
  const { before, group, observed, want } = input;
  // An unload for another reason does not wait like this.
  if (observed.length === 0 || !(want.load || isOnCall(want))) return undefined;
  const began = preemption(before?.status);
  if (began === undefined && (group?.grant.state !== "leaving" || wasState(input) === "unloading")) return undefined;
  const message = began?.message ?? leavingMessage(group);
  const reason = began?.reason ?? leavingReason(group);
  const result = { severity: "leaving", reason, message } as const;
  if (!observed.some(({ phase }) => phase === "running")) return { ...result, steps: stop(observed, message) };
  const since = began === undefined ? undefined : at(began.at);
  return { ...result, ...drain(input, { processes: observed, message, since, deadline: undefined }) };
}

function leavingReason(group: SlotInput["group"]): string {
  return group?.grant.state === "leaving" && group.grant.cause === "lent" ? lentReason : preemptedReason;
}

function leavingMessage(group: SlotInput["group"]): string {
  const grant = group?.grant;
  if (leavingReason(group) === lentReason) return `group ${group?.name ?? ""} is lent`;
  const over = grant?.state === "leaving" ? grant.over : undefined;
  if (grant?.state === "leaving" && grant.for !== undefined && (grant.cause !== "budget" || over === undefined)) {
    const cost = grant.cost === undefined ? "" : `; ${grant.cost}`;
    return `slot ${grant.for} waits for its place in group ${group?.name ?? ""}${cost}`;
  }
  return over ?? `group ${group?.name ?? ""} was over its budget`;
}

/** The slot would be started, and its group has no place for it. */
export function ungranted(input: ProcessInput): Verdict | undefined {
  const { group, slot } = input;
  if (group === undefined || slot.observed.length > 0 || needsStart(input).length === 0) return undefined;
  const { grant } = group;
  switch (grant.state) {
    case "granted": {
      const awaited = roomAwaited(input);
      return awaited && { ...waiting(groupFullReason, awaited.message), requeueMs: undecidedRequeueMs };
    }
    case "lent":
      return waiting(lentReason, lentMessage(group.name, grant.until));
    case "pending":
      return waiting(groupPendingReason, grant.message);
    case "leaving":
      return waiting(groupFullReason, `group ${group.name} is full: its other slots come first`);
    case "waiting":
      return withoutPlace(input) ?? waiting(groupFullReason, grant.message);
    default:
      return grant satisfies never;
  }
}

/** The group can never have a place for the slot as both are declared: only an edit helps. */
export function withoutPlace({ group }: Pick<SlotInput, "group">): Verdict | undefined {
  if (group?.grant.state !== "waiting" || !group.grant.isHopeless) return undefined;
  const { message } = group.grant;
  return { severity: "stalled", reason: groupFullReason, message, steps: [] };
}

function waiting(reason: string, message: string): Verdict {
  return { severity: "waiting", reason, message, steps: [{ do: "wait", reason: message }] };
}

/** The group is lent: no request loads the slot, and gateways refuse its requests. */
export function lent(input: SlotInput): Verdict | undefined {
  const { group, want, observed, spec } = input;
  if (group?.grant.state !== "lent" || observed.length > 0 || !canMove(wasState(input), "offline")) return undefined;
  if (!want.load && !isOnCall(want)) return undefined;
  const message = lentMessage(group.name, group.grant.until);
  if (spec?.load === "always") return waiting(lentReason, message);
  return { severity: "off", reason: lentReason, message, steps: [] };
}

function lentMessage(group: string, until: string): string {
  return `group ${group} is lent until ${until}; \`berth lend --end --group ${group}\` ends that`;
}

/** How long a driver may take to release the memory of an engine that is gone. */
const releaseMs = 10_000;
const releaseRequeueMs = 500;

/** A slot that is being loaded has its memory, or fails, without an event for this slot. */
const reservedRequeueMs = 5000;

/**
 * Another slot that is being loaded takes the memory that is free, or the slot has its place in its group, and what another
 * slot has left is not free yet: no start would succeed, and it is no failure of this slot.
 */
export function memoryAwaited(input: SlotInput): Verdict | undefined {
  const { group, workloads, freedAt, observed, now } = input;
  if (observed.length > 0 || !isRefusal(workloads) || !canMove(wasState(input), "offline")) return undefined;
  if (workloads.reason === memoryReserved)
    return { ...waiting(memoryHeldReason, workloads.message), requeueMs: reservedRequeueMs };
  if (group?.grant.state !== "granted" || freedAt === undefined || workloads.reason !== noMemory) return undefined;
  if (Math.abs(now.getTime() - freedAt.getTime()) > releaseMs) return undefined;
  const message = `another slot has left, and its memory is not free yet: ${workloads.message}`;
  return { ...waiting(memoryHeldReason, message), requeueMs: releaseRequeueMs };
}
