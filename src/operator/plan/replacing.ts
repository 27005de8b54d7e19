import { completeSlot } from "../../api/slot.ts";
import { isSameProcess, processName } from "../../api/process-ref.ts";
import type { Observed } from "../../api/workload.ts";
import { isRefusal } from "../../engines/engine.ts";
import { at, requestOf } from "./input.ts";
import { drain } from "./drain.ts";
import { replacementAwaited } from "./growth.ts";
import { publishedProcess, start, stop, wasState, wasThere, workloadsOf } from "./facts.ts";
import { answering, hasReplicas, isUnhealthy, isServedByOthers, processInput, type ProcessInput } from "./processes.ts";
import { specChange } from "./spec-change.ts";
import { changed, leave, stopDeadline, unloadingSince } from "./unloading.ts";
import type { Verdict } from "./verdict.ts";

/** The running process differs from the wanted workload. */
export function mustRestart(input: ProcessInput): Verdict | undefined {
  const message = restartReason(input);
  const [process] = input.observed;
  if (message === undefined || process === undefined) return undefined;
  if (workloadsOf(input).length > 0 && replacementAwaited(input.slot) !== undefined) return undefined;
  // The last replica that answered fails its probes: the rule for failing engines ends it, and its successor is the new
  // workload.
  if (hasReplicas(input) && !isServedByOthers(input) && isUnhealthy(input.slot, process)) return undefined;
  const verdict = replace(input, process, message);
  if (!verdict.steps.some((step) => step.do === "stop")) return verdict;
  return { ...verdict, steps: [...verdict.steps, ...workloadsOf(input).map((workload) => start(workload, message))] };
}

/** Why that process must be stopped or restarted. */
function restartReason(input: ProcessInput): string | undefined {
  const [process] = input.observed;
  // Without a next workload, the running one is not touched.
  if (process === undefined || isRefusal(input.workloads)) return undefined;
  const [workload] = input.workloads;
  const name = processName(process);
  if (workload === undefined) {
    // A replica without a port is wanted all the same.
    const isWanted = process.role === "main" && process.ordinal < (input.spec?.replicas ?? 1);
    return isWanted ? undefined : `the slot no longer needs its ${name} process`;
  }
  if (process.phase === "exited") return undefined;
  const restart = requestOf(input, "restart");
  if (process.hash !== workload.hash) return changeOf(input);
  if (process.port !== workload.port) return `its port is now ${workload.port}`;
  if (restart !== undefined && wasThere(input, process, restart.requestedAt))
    return `restart requested at ${restart.requestedAt}`;
  return undefined;
}

/**
 * Replaces one process. Where others answer for the slot meanwhile it stays ready; else all of it is unloaded. A
 * process that was never published is stopped at once.
 */
function replace(input: ProcessInput, process: Observed, message: string): Verdict {
  const isServed = isServedByOthers(input);
  if (!isServed && (wasState(input) === "unloading" || !mayStopAlone(input)))
    return leave(input.slot, [process], changed, message);
  const phase = wasState(input) === "warming" ? "warming" : "starting";
  const result = { severity: "progressing", phase, reason: changed, message } as const;
  const known = publishedProcess(input, process);
  const since = known?.drainingSince;
  const isAtWork = process.phase === "running" && (known?.isReady === true || since !== undefined);
  if (!isAtWork) return { ...result, steps: stop([process], message), requeueMs: 0 };
  const isAnswering = since !== undefined || answering(input.slot).some((each) => isSameProcess(each, process));
  // A draining process is used again where no other answers any more.
  if (isAnswering && (!isServed || (since === undefined && !mayLeave(input)))) {
    const reason = "another replica is replaced first: this one still answers";
    return { ...result, steps: [{ do: "wait", reason }] };
  }
  const began = since === undefined ? undefined : at(since);
  const deadline = stopDeadline(input, began);
  const drained = drain(input, { processes: [process], message, since: began, deadline, only: input.process });
  // Published only now: a second reconcile sees whether any gateway must be waited for. Without a gateway no event
  // would cause it.
  return { ...result, requeueMs: 0, ...drained, ...(since === undefined ? { requeueMs: 0 } : {}) };
}

/** A second process beside a loading one is stopped without the rest of the slot; so is a replica. */
function mayStopAlone(input: ProcessInput): boolean {
  if (input.process.role === "main") return hasReplicas(input);
  return wasState(input) === "starting" || wasState(input) === "warming";
}

/**
 * Whether a process may leave: of n replicas n − 1 stay ready, and one in any case. Replaced replicas leave before surplus
 * ones, since these answer meanwhile; the highest ordinal first, as in a StatefulSet.
 */
function mayLeave({ slot, process }: ProcessInput): boolean {
  if (process.role !== "main") return true;
  const ready = answering(slot);
  const replicas = slot.spec?.replicas ?? 1;
  const isTooMany = ({ ordinal }: Observed): number => (ordinal >= replicas ? 1 : 0);
  const leaving = ready
    .filter((each) => restartReason(processInput(slot, each)) !== undefined)
    .toSorted((one, other) => isTooMany(one) - isTooMany(other) || other.ordinal - one.ordinal);
  const most = ready.length - Math.max(1, replicas - 1);
  return leaving.slice(0, Math.max(0, most)).some((each) => isSameProcess(each, process));
}

/** The reason from the beginning stays: by now the new manifest is the published one. */
function changeOf(input: ProcessInput): string {
  const { before, spec, file, held } = input;
  const previous = before?.status.model.ref;
  const next = held.ref;
  if (previous !== undefined && next !== undefined && previous !== next) {
    return `the model changed from ${previous} to ${next}`;
  }
  const known = before && completeSlot(before.name, before.spec);
  const change = known === undefined || spec === undefined ? undefined : specChange(known, spec, file);
  return change ?? publishedChange(input) ?? "the file of its model, its image or its program has changed";
}

function publishedChange(input: ProcessInput): string | undefined {
  const began = unloadingSince(input);
  if (began?.reason === changed) return began.message;
  return input.before?.status.conditions.find(({ type, reason }) => type === "Reconciling" && reason === changed)
    ?.message;
}

/**
 * A published `unloading` is completed, even if the slot is wanted again meanwhile. A process that ends then was
 * stopped, possibly by the previous operator: that is no failure.
 */
export function unloadingEnds(input: ProcessInput): Verdict | undefined {
  if (wasState(input) !== "unloading") return undefined;
  // A process that was started since is the next one, of which no status could be written yet.
  const since = unloadingSince(input)?.at;
  const stopped = input.slot.observed.filter(({ startedAt }) => since === undefined || startedAt.getTime() < at(since));
  const phase = stopped.some((each) => each.role === "main" && each.phase === "running") ? "running" : "exited";
  const own = stopped.filter((each) => each.phase === phase && isSameProcess(each, input.process));
  if (own.length === 0) return undefined;
  return leave(input.slot, own, "Unloading", "it was being unloaded when it became wanted again");
}
