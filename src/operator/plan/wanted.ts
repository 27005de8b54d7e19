import type { SlotSpec } from "../../api/slot.ts";
import type { SlotRequest } from "../../api/status.ts";
import { at, isFromAhead, requestOf, type SlotInput, type Wanted } from "./input.ts";
import { lentReason, preemptedAt } from "./group.ts";

type WantedInput = Pick<
  SlotInput,
  "name" | "now" | "spec" | "specHash" | "isDeclared" | "requests" | "demand" | "observed" | "before"
>;

const unusedMessage = "no request needs it";
const leftMessage = "it left for another slot of its group; the next request loads it";
const wasLentMessage = "it left when its group was lent; the next request loads it";

/** Whether the slot should be loaded now, with the reason. */
export function wanted(input: WantedInput): Wanted {
  const { spec, demand } = input;
  if (spec === undefined) return { load: false, reason: "NotConfigured", message: "no valid spec" };
  if (!input.isDeclared && spec.enabled) {
    return { load: false, reason: "Deleted", message: "its manifest is gone" };
  }
  if (!spec.enabled) {
    return input.isDeclared
      ? { load: false, reason: "Disabled", message: "enabled is false" }
      : { load: false, reason: "NotConfigured", message: "no manifest configures this slot" };
  }
  const unload = requestOf(input, "unload");
  const load = requestOf(input, "load");
  const restart = requestOf(input, "restart");
  const loadAt = Math.max(at(load?.requestedAt), at(restart?.requestedAt));
  const unloadAt = Math.max(at(unload?.requestedAt), spec.load === "always" ? 0 : preemptedAt(input));
  if (spec.load === "always") {
    const isEdited = unload !== undefined && unload.specHash !== input.specHash;
    if (unload !== undefined && !isEdited && unloadAt >= loadAt) {
      return { load: false, reason: "Unloaded", message: unloadedMessage(unload) };
    }
    return { load: true, reason: "it is always loaded" };
  }
  const lastUse = Math.max(at(demand.lastRequestAt), loadAt);
  const running = input.observed.filter((process) => process.phase === "running");
  // A process that was started since is for requests that waited through the unload, which does not apply to it.
  const isHandled =
    running.length > 0 &&
    running.every(({ startedAt }) => {
      const startedMs = startedAt.getTime();
      return startedMs >= unloadAt && !isFromAhead(startedMs, input.now);
    });
  if (unloadAt > lastUse && !isHandled) {
    // Held requests stay in the queue: they load the slot again once it is unloaded.
    if (demand.held > 0 && running.length === 0)
      return { load: true, reason: counted(demand.held, "waits for it", "wait for it") };
    const isByGroup = unload === undefined || unloadAt > at(unload.requestedAt);
    return isByGroup ? { load: false, reason: "ScaledToZero", message: leftReason(input) } : byHand(input, unload);
  }
  if (demand.held > 0) return { load: true, reason: counted(demand.held, "waits for it", "wait for it") };
  if (demand.inFlight > 0) return { load: true, reason: counted(demand.inFlight, "is in flight", "are in flight") };
  const idleMs = spec.idleSeconds * 1000;
  // A gateway that ends takes its demand with it: the published last use outlives it.
  const usedAt = Math.max(lastUse, knownUse(input));
  if (usedAt > 0 && isComing(input)) return { load: true, reason: "it was requested and still loads" };
  if (usedAt > 0 && (idleMs === 0 || input.now.getTime() - idleFrom(input, usedAt) < idleMs)) {
    return { load: true, reason: "it was used within its idle time" };
  }
  return { load: false, reason: "ScaledToZero", message: unusedMessage };
}

/** The requests since may have gone with a gateway; the start that they caused is known. */
function byHand({ before }: WantedInput, unload: SlotRequest): Wanted {
  const started = before?.status.transitions.findLast(({ to }) => to === "starting");
  const isOver = at(started?.at) > at(unload.requestedAt);
  if (isOver) return { load: false, reason: "ScaledToZero", message: unusedMessage };
  const message = `${unloadedMessage(unload)}; the next request loads it`;
  return { load: false, reason: "UnloadedUntilRequest", message };
}

function unloadedMessage({ requestedAt, requestedBy }: SlotRequest): string {
  return `unloaded by request${requestedBy === undefined ? "" : ` of ${requestedBy}`} at ${requestedAt}`;
}

function leftReason({ before }: WantedInput): string {
  const left = before?.status.transitions.findLast(({ to }) => to === "unloading");
  return left?.reason === lentReason ? wasLentMessage : leftMessage;
}

function counted(requests: number, one: string, many: string): string {
  return requests === 1 ? `1 request ${one}` : `${requests} requests ${many}`;
}

/** A requested slot is not idle while it loads, for any time: a failure or its time limit ends it. */
function isComing({ before, observed }: WantedInput): boolean {
  const { state, transitions = [] } = before?.status ?? {};
  if (state === "pulling") return true;
  if (!observed.some(({ phase }) => phase === "running")) return false;
  // Its program may wait for a machine, or for a Secret: that is an error, and it comes once these are there.
  const last = state === "error" ? transitions.at(-1)?.from : state;
  return last === "pulling" || last === "starting" || last === "warming";
}

/** The last published use, in milliseconds since the epoch; now, where the clock was set back since. */
function knownUse({ before, now }: WantedInput): number {
  const known = at(before?.status.idleSince);
  return isFromAhead(known, now) ? now.getTime() : known;
}

/** When the idle time began, in milliseconds since the epoch: at the last use, and not before it was ready. */
function idleFrom({ before, now }: WantedInput, lastUse: number): number {
  const readyAt = at(before?.status.readySince);
  return isFromAhead(readyAt, now) ? lastUse : Math.max(lastUse, readyAt);
}

/**
 * Milliseconds until a loaded on-demand slot becomes idle, or, while it is used, until its last use is published again;
 * undefined where neither is due.
 */
export function idleInMs(input: WantedInput): number | undefined {
  const { spec, demand } = input;
  if (spec === undefined || spec.load !== "onDemand" || spec.idleSeconds === 0) return undefined;
  if (demand.held > 0 || demand.inFlight > 0) return Math.max(leastUseMs, idleStepOf(spec));
  const lastUse = Math.max(
    at(demand.lastRequestAt),
    knownUse(input),
    at(requestOf(input, "load")?.requestedAt),
    at(requestOf(input, "restart")?.requestedAt),
  );
  const leftMs = idleFrom(input, lastUse) + spec.idleSeconds * 1000 - input.now.getTime();
  // Its idle time is over, and it is kept for another reason, such as a process that still loads.
  return leftMs > 0 ? leftMs : lookAgainMs;
}

const lookAgainMs = 1000;

const idleStepMs = 10_000;
/** The last use of a slot is not published more often than this while it is used. */
const leastUseMs = 5000;

function idleStepOf({ idleSeconds }: Pick<SlotSpec, "idleSeconds">): number {
  return idleSeconds === 0 ? idleStepMs : Math.min(idleStepMs, idleSeconds * 100);
}

/**
 * `status.idleSince` of a wanted on-demand slot: its last use by the gateways' demand, exact to a tenth of its idle
 * time and at most ten seconds, so that status is not written with every request. Undefined without any use.
 */
export function idleSince(input: WantedInput & Pick<SlotInput, "want">): string | undefined {
  const { spec, demand, now } = input;
  if (spec?.load !== "onDemand" || !input.want.load) return undefined;
  const published = input.before?.status.idleSince;
  const known = published === undefined ? undefined : new Date(knownUse(input)).toISOString();
  const lastUse = demand.held + demand.inFlight > 0 ? now.getTime() : at(demand.lastRequestAt);
  if (lastUse === 0 || (known !== undefined && lastUse - at(known) <= idleStepOf(spec))) return known;
  return new Date(lastUse).toISOString();
}
