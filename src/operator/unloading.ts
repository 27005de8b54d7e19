import type { ProcessRole } from "../api/names.ts";
import { completeSlot } from "../api/slot.ts";
import type { Step } from "../api/plan.ts";
import { isAvailable } from "../api/states.ts";
import type { SlotStatus } from "../api/status.ts";
import type { Observed } from "../api/workload.ts";
import { isRefusal } from "../engines/engine.ts";
import { isMainServing, publishedProcess, running, start, stop, wasState, wasThere, workloadsOf } from "./facts.ts";
import { at, isFromAhead, requestOf, type SlotInput } from "./input.ts";
import { specChange } from "./spec-change.ts";
import type { Verdict } from "./verdict.ts";
import { wanted } from "./wanted.ts";

/** The slot is not to be loaded: what runs leaves. */
export function notWanted(input: SlotInput): Verdict | undefined {
  const want = wanted(input);
  if (want.load) return undefined;
  const { reason, message } = want;
  if (input.observed.length > 0) return leave(input, input.observed, reason, message);
  const isDeleted = reason === "Deleted" && { isDeleted: true as const };
  return { state: "offline", row: "offline", reason, message, steps: [], ...isDeleted };
}

/**
 * Lets go of processes: gateways first (published `unloading`, seen and drained), then TERM. Engines that never
 * became ready have no requests and are stopped at once.
 */
export function leave(input: SlotInput, processes: readonly Observed[], reason: string, message: string): Verdict {
  const result = { state: "unloading", row: "unloading", reason, message } as const;
  const began = unloadingSince(input);
  const hasServed = isAvailable(began?.from ?? wasState(input));
  if (!hasServed || !processes.some(({ phase }) => phase === "running")) {
    return { ...result, steps: stop(processes, message) };
  }
  return { ...result, ...drained(input, processes, message, began === undefined ? undefined : at(began.at)) };
}

/** When the unloading that is published began, and from which state. */
function unloadingSince({ before }: SlotInput): SlotStatus["transitions"][number] | undefined {
  if (before?.status.state !== "unloading") return undefined;
  return before.status.transitions.findLast(({ to }) => to === "unloading");
}

/** The steps that stop `processes` once gateways, told since `since`, have let go of them. */
function drained(
  input: SlotInput,
  processes: readonly Observed[],
  message: string,
  since: number | undefined,
): Pick<Verdict, "steps" | "requeueMs"> {
  const now = input.now.getTime();
  // How long they have had is not known any more where the clock was set back.
  const isOver = since !== undefined && isFromAhead(since, input.now);
  const deadline = isOver ? now : (since ?? now) + (input.spec?.stopSeconds ?? 30) * 1000;
  const { inFlight, seenRevision } = input.demand;
  const isReleased = since !== undefined && inFlight === 0 && seenRevision >= (input.before?.revision ?? 0);
  const stops = stop(processes, message);
  if (isReleased || deadline <= now) return { steps: stops };
  const drain: Step = { do: "drain", reason: message, deadline: new Date(deadline).toISOString() };
  return { steps: [drain, ...stops], requeueMs: deadline - now };
}

/**
 * What cannot be had: keep what runs, or say that nothing can. An engine that is coming up, or has just ended, is for
 * the checks that follow to judge.
 */
function withoutNext(input: SlotInput, reason: string, message: string, isTerminal: boolean): Verdict | undefined {
  const steps: Step[] = isTerminal ? [] : [{ do: "wait", reason: message }];
  if (isMainServing(input)) {
    return { state: "ready", row: isTerminal ? "loadedStalled" : "loadedRetrying", reason, message, steps };
  }
  if (input.observed.some(({ role, phase }) => role === "main" || phase === "exited")) return undefined;
  return { state: "error", row: isTerminal ? "stalled" : "retrying", reason, message, steps };
}

/** Another slot holds the port that the manifest fixes. */
export function portConflict(input: SlotInput): Verdict | undefined {
  const conflict = input.conflicts.port;
  if (conflict === undefined) return undefined;
  const message = `port ${conflict.port} belongs to slot ${conflict.holder}`;
  return withoutNext(input, "PortConflict", message, true);
}

/** What would keep an on-demand slot from loading is told before anybody asks for it. */
export function cannotLoad(input: SlotInput): Verdict | undefined {
  const want = wanted(input);
  if (want.load || want.reason !== "ScaledToZero" || input.observed.length > 0) return undefined;
  return portConflict(input) ?? refused(input);
}

/** Ports come free without anybody's edit. */
const waitable: ReadonlySet<string> = new Set(["NoFreePort", "PortInUse"]);
const waitMs = 5000;

/** No port is free, or the one that was named is taken: either may end by itself. */
export function noFreePort(input: SlotInput): Verdict | undefined {
  if (!isRefusal(input.workloads) || !waitable.has(input.workloads.reason)) return undefined;
  const { reason, message } = input.workloads;
  const verdict = withoutNext(input, reason, message, false);
  return verdict && { requeueMs: waitMs, ...verdict };
}

/** A person must change something before there can be a workload. */
export function refused(input: SlotInput): Verdict | undefined {
  if (!isRefusal(input.workloads)) return undefined;
  return withoutNext(input, input.workloads.reason, input.workloads.message, true);
}

/** What runs is not what is to run. */
export function mustRestart(input: SlotInput): Verdict | undefined {
  // Without what would come next, what runs is left alone.
  if (isRefusal(input.workloads)) return undefined;
  const reasons = restartReasons(input);
  const [message] = reasons.values();
  if (message === undefined) return undefined;
  const leaving = running(input).filter(({ role }) => reasons.has(role));
  const starts = workloadsOf(input).filter(({ role }) => reasons.has(role));
  const isMainLeaving = reasons.has("main");
  const verdict =
    !isMainLeaving && isMainServing(input)
      ? leaveBeside(input, leaving, message)
      : !isMainLeaving && (wasState(input) === "starting" || wasState(input) === "warming")
        ? ({ ...progressing(input), reason: "Changed", message, steps: stop(leaving, message), requeueMs: 0 } as const)
        : leave(input, leaving, "Changed", message);
  return { ...verdict, steps: [...verdict.steps, ...starts.map((workload) => start(workload, message))] };
}

function progressing(input: SlotInput): Pick<Verdict, "state" | "row"> {
  return { state: wasState(input) === "warming" ? "warming" : "starting", row: "progressing" };
}

function restartReasons(input: SlotInput): ReadonlyMap<ProcessRole, string> {
  const restart = requestOf(input, "restart");
  const workloads = workloadsOf(input);
  const reasons = new Map<ProcessRole, string>();
  for (const process of running(input)) {
    const workload = workloads.find(({ role }) => role === process.role);
    if (workload === undefined) reasons.set(process.role, `the slot no longer needs its ${process.role} process`);
    else if (process.hash !== workload.hash) reasons.set(process.role, changeOf(input));
    else if (process.port !== workload.port) reasons.set(process.role, `its port is now ${workload.port}`);
    else if (restart !== undefined && wasThere(input, process, restart.requestedAt)) {
      reasons.set(process.role, `restart requested at ${restart.requestedAt}`);
    }
  }
  return reasons;
}

/** What was told when this began stays: by now the new manifest is the one that is published. */
function changeOf(input: SlotInput): string {
  const { before, spec, file, held } = input;
  const previous = before?.status.model.ref;
  const next = held.ref;
  if (previous !== undefined && next !== undefined && previous !== next) {
    return `the model changed from ${previous} to ${next}`;
  }
  const known = before && completeSlot(before.name, before.spec);
  const change = known === undefined || spec === undefined ? undefined : specChange(known, spec, file);
  return change ?? toldChange(input) ?? "the file of its model, its image or its program has changed";
}

function toldChange(input: SlotInput): string | undefined {
  const began = unloadingSince(input);
  if (began?.reason === changed) return began.message;
  return input.before?.status.conditions.find(({ type, reason }) => type === "Reconciling" && reason === changed)
    ?.message;
}

const changed = "Changed";

/** Lets go of a second process while the main one goes on serving: the slot stays ready. */
function leaveBeside(input: SlotInput, leaving: readonly Observed[], message: string): Verdict {
  const result = { state: "ready", row: "loadedProgressing", reason: "Changed", message } as const;
  const told = input.before?.status.conditions.find(
    ({ type, reason }) => type === "Reconciling" && reason === "Changed",
  );
  const isServing = leaving.some(({ role }) => publishedProcess(input, role)?.isReady === true);
  if (!isServing && told === undefined) return { ...result, steps: stop(leaving, message), requeueMs: 0 };
  const since = told === undefined || isServing ? undefined : at(told.lastTransitionTime);
  const verdict = { requeueMs: 0, ...result, ...drained(input, leaving, message, since) };
  // Told only now: a second look sees whether anybody must be waited for. Without a gateway no event would bring it.
  return since === undefined ? { ...verdict, requeueMs: 0 } : verdict;
}

/**
 * Once gateways were told `unloading` it is seen through, even if the slot is wanted again meanwhile. What ends then has
 * been told to, if only by the operator before this one: that is no failure.
 */
export function unloadingEnds(input: SlotInput): Verdict | undefined {
  if (wasState(input) !== "unloading") return undefined;
  // What was started since is the next one, of which no status could be written yet.
  const since = unloadingSince(input)?.at;
  const told = input.observed.filter(({ startedAt }) => since === undefined || startedAt.getTime() < at(since));
  const left = told.some(({ role, phase }) => role === "main" && phase === "running")
    ? told.filter(({ phase }) => phase === "running")
    : told.filter(({ phase }) => phase === "exited");
  if (left.length === 0) return undefined;
  return leave(input, left, "Unloading", "it was being unloaded when it became wanted again");
}
