import { hasSameId, isSameStart } from "../../api/engine-identity.ts";
import type { Observed } from "../../api/workload.ts";
import {
  failuresInForce,
  memoryReason,
  needsStart,
  publishedProcess,
  running,
  startOf,
  steadyMs,
  stop,
  wasState,
  workloadsOf,
} from "./facts.ts";
import { at, healthOf } from "./input.ts";
import { loaded } from "./loading.ts";
import { isOutOfMemory } from "../../runtimes/exit-cause.ts";
import { unreachableReason } from "./unreachable.ts";
import { leave } from "./unloading.ts";
import { isSameProcess, processName } from "../../api/process-ref.ts";
import { stepProcess, type Step } from "../../api/plan.ts";
import { isServed } from "./decision.ts";
import { hasReplicas, isServedByOthers, type ProcessInput } from "./processes.ts";
import type { Verdict } from "./verdict.ts";

/** Only a person can mend these: no attempt until the spec changes or a request comes. */
const terminalReasons: ReadonlySet<string> = new Set([
  "StartFailed",
  "ImageNotFound",
  "Unauthorized",
  "WrongPlatform",
  "WarmUpRefused",
]);
/**
 * The reasons that a cluster may mend by itself: its Git tool brings the image, or the Secret of its registry, after
 * the slot.
 */
const mendedReasons: ReadonlySet<string> = new Set(["ImageNotFound", "Unauthorized"]);

/**
 * A process that ended before it was ready was started for an earlier spec, as when a person saves twice: that says
 * nothing about the present spec, which starts without failures. A workload that changes without an edit is no such
 * case: its failures count.
 */
export function outdated(input: ProcessInput): Verdict | undefined {
  const { before } = input;
  if (before === undefined) return undefined;
  const past = input.observed.filter((process) => {
    const workload = workloadsOf(input).find((each) => isSameProcess(each, process));
    const isPast = process.phase === "exited" && workload !== undefined && workload.hash !== process.hash;
    if (!isPast) return false;
    // The process held another model of the slot, whose failure is counted already.
    if (input.onRequest !== undefined) return true;
    const known = publishedProcess(input, process);
    // Where gateways were asked to stop sending to it, this operator or an earlier one has stopped it.
    return before.specHash === input.specHash ? known?.drainingSince !== undefined : known?.isReady !== true;
  });
  if (past.length === 0) return undefined;
  const message = "the process that ended was started for an earlier spec";
  return {
    severity: "progressing",
    reason: "Changed",
    message,
    steps: stop(past, message),
    requeueMs: 0,
  };
}

/** A running process has exited, or has vanished. */
export function crashed(input: ProcessInput): Verdict | undefined {
  const gone = input.observed.filter(({ phase }) => phase === "exited");
  const wasComing = wasState(input) === "starting" || wasState(input) === "warming" || wasState(input) === "ready";
  const vanished = workloadsOf(input).find((workload) => {
    const known = publishedProcess(input, workload);
    if (!wasComing || known === undefined || known.drainingSince !== undefined) return false;
    return !input.observed.some((process) => isSameProcess(process, workload));
  });
  const [first] = gone;
  if (first === undefined && vanished === undefined) return undefined;
  const said = first?.exit?.message ?? "the engine is gone, and its exit was not observed";
  const hasRunOut = isOutOfMemory(said);
  const reason = hasRunOut ? memoryReason : (first?.exit?.reason ?? (first === undefined ? "Vanished" : "Unknown"));
  // Loading the same weights again would end the same way. An engine that had been ready had memory for its weights:
  // the further memory that it lacked may be free the next time.
  const isTerminal =
    isPersons(input, reason) || (hasRunOut && first !== undefined && publishedProcess(input, first)?.isReady !== true);
  const next = "tried again once another slot releases memory, after an edit or on request";
  const message = hasRunOut && isTerminal ? `${said}; ${next}` : said;
  const startedAt = first?.startedAt ?? (vanished && publishedProcess(input, vanished)?.startedAt);
  return failure(input, {
    reason,
    message,
    isTerminal,
    isSteady: wasSteady(input, at(startedAt)),
    steps: stop(gone, "remove the exited process"),
  });
}

/** Whether only a person can mend that failure. */
function isPersons(input: ProcessInput, reason: string): boolean {
  if (!terminalReasons.has(reason)) return false;
  // Somebody may still provide the image or Secret that such a runtime fetches after the start.
  return !(input.pullsAfterStart === true && mendedReasons.has(reason));
}

/** The same engine by its name, with another start that is not ours: its model was lost with the old one. */
export function restarted(input: ProcessInput): Verdict | undefined {
  const again = running(input).find((seen) => {
    const known = publishedProcess(input, seen);
    return hasSameId(known, seen) && !isSameStart(known, seen);
  });
  if (again === undefined) return undefined;
  const message = "it was restarted from outside";
  // A foreign restart is no failure of the engine: it does not add to earlier ones.
  return failure(input, { reason: "Restarted", message, isSteady: true, steps: [] });
}

/** The slot, and this very process, had been ready for long. */
function wasSteady(input: ProcessInput, startedAtMs: number): boolean {
  const readySince = input.before?.status.readySince;
  return readySince !== undefined && input.now.getTime() - Math.max(at(readySince), startedAtMs) >= steadyMs;
}

function failure(
  input: ProcessInput,
  {
    reason,
    message,
    isTerminal = isPersons(input, reason),
    isSteady,
    steps,
  }: Pick<Verdict, "reason" | "message" | "steps"> & {
    isTerminal?: boolean;
    isSteady: boolean;
  },
): Verdict {
  return {
    severity: isTerminal ? "stalled" : "retrying",
    reason,
    message,
    failure: { reason, message, isTerminal, isSteady },
    steps,
    requeueMs: 0,
  };
}

/** After a failure that only a person can mend. */
export function stalled(input: ProcessInput): Verdict | undefined {
  const { lastError, nextRetryAt } = input.before?.status ?? {};
  if (lastError === undefined) return undefined;
  const isTerminal =
    isPersons(input, lastError.reason) || (lastError.reason === memoryReason && nextRetryAt === undefined);
  if (!isTerminal) return undefined;
  if (needsStart(input).length === 0 || failuresInForce(input) === 0) return undefined;
  const { reason, message } = lastError;
  return { severity: "stalled", reason, message, steps: [] };
}

/** After a failure the next start waits for its time. */
export function backingOff(input: ProcessInput): Verdict | undefined {
  const status = input.before?.status;
  if (status?.nextRetryAt === undefined || needsStart(input).length === 0 || failuresInForce(input) === 0)
    return undefined;
  // That time was for a runtime that has answered since.
  if (status.lastError?.reason === unreachableReason) return undefined;
  const left = at(status.nextRetryAt) - input.now.getTime();
  if (left <= 0) return undefined;
  const { reason, message } = status.lastError ?? { reason: "Failed", message: "it failed" };
  return {
    severity: "retrying",
    reason,
    message,
    steps: [{ do: "wait", reason: waits(input.name, status.failures), until: status.nextRetryAt }],
    requeueMs: left,
  };
}

/** A person need not wait: an edit or a request since the failure starts without failures. */
function waits(slot: string, failures: number): string {
  return `failure ${failures} in a row; \`berth slot restart ${slot}\` or an edit starts it at once; next try`;
}

function fail(input: ProcessInput, process: Observed, reason: string, message: string): Verdict {
  return failure(input, { reason, message, isSteady: false, steps: stop([process], message) });
}

/** A started process does not become ready: a stranger has its port, it refuses its first request, or its time is over. */
export function startupFailed(input: ProcessInput): Verdict | undefined {
  const limit = input.spec?.probe.startupSeconds ?? 600;
  for (const process of running(input)) {
    const health = healthOf(input, process);
    if (health?.isWarm === true) continue;
    if (process.isPortTaken && !process.isListening) {
      return fail(input, process, "PortInUse", `another process listens on port ${process.port}`);
    }
    if (health?.isRefused === true) return fail(input, process, "WarmUpRefused", health.message);
    const begunAt = Math.max(startOf(input, process), process.begunAt?.getTime() ?? 0);
    if (input.now.getTime() - begunAt > limit * 1000) {
      const seen = health?.message === undefined || health.message === "" ? "it never listened" : health.message;
      return fail(input, process, "StartupTimeout", `not healthy after ${limit} s: ${seen}`);
    }
  }
  return undefined;
}

/** A socket may be closed and opened again: its engine is ended when it is still missing after this time. */
const lostMs = 1000;

/**
 * A ready engine lives and does not own its port any more. If another program answers there, every request would reach
 * a stranger: the engine is ended at once, with any requests. If none does, running requests may end first.
 */
export function unreachable(input: ProcessInput): Verdict | undefined {
  for (const process of running(input)) {
    const { role, port, isPortTaken } = process;
    const lostAt = healthOf(input, process)?.lostAt;
    if (lostAt === undefined) continue;
    if (isPortTaken) return fail(input, process, "PortInUse", `another process listens on port ${port} of the engine`);
    const reason = "NotListening";
    const message = `the ${processName(process)} process no longer listens on port ${port}`;
    const leftMs = lostAt.getTime() + lostMs - input.now.getTime();
    if (leftMs > 0) {
      // Where the main process is still loading, the next checks apply, which reconcile again sooner.
      if (!isServed(input.slot)) continue;
      return { ...loaded(input), requeueMs: leftMs };
    }
    const failed = fail(input, process, reason, message);
    if (role !== "main" || input.demand.inFlight === 0 || failed.failure === undefined) return failed;
    if (!hasReplicas(input)) return { ...leave(input.slot, [process], reason, message), failure: failed.failure };
    const deadline = lostAt.getTime() + (input.spec?.stopSeconds ?? 30) * 1000;
    return deadline > input.now.getTime() ? spared(input, { reason, message, deadline }) : failed;
  }
  return undefined;
}

/** A failing replica whose requests may still be answered: no further request is sent to it. */
function spared(
  input: ProcessInput,
  { reason, message, deadline }: { readonly reason: string; readonly message: string; readonly deadline: number },
): Verdict {
  const { inFlight } = input.demand;
  const why = `${inFlight} requests in flight may still be answered`;
  const step: Step = {
    do: "drain",
    ...stepProcess(input.process),
    reason: why,
    deadline: new Date(deadline).toISOString(),
  };
  const requeueMs = Math.max(1, Math.min(1000, deadline - input.now.getTime()));
  return { severity: "retrying", reason, message, steps: [step], requeueMs };
}

/** A ready engine fails its probes, and has no request or has sent no byte for too long. */
export function unhealthy(input: ProcessInput): Verdict | undefined {
  const { spec } = input;
  if (spec === undefined) return undefined;
  for (const process of running(input)) {
    const health = healthOf(input, process);
    if (health?.isWarm !== true || health.failures < spec.probe.failures) continue;
    const message = `${health.failures} probes failed: ${health.message}`;
    const sinceByteMs = input.now.getTime() - at(input.demand.lastByteAt ?? input.demand.lastRequestAt);
    const isHung = sinceByteMs > spec.probe.hungSeconds * 1000;
    if (input.demand.inFlight === 0 || isHung) return fail(input, process, "Unhealthy", message);
    if (isServedByOthers(input)) {
      const deadline = input.now.getTime() - sinceByteMs + spec.probe.hungSeconds * 1000;
      return spared(input, { reason: "Unhealthy", message, deadline });
    }
    return {
      severity: "retrying",
      reason: "Unhealthy",
      message,
      steps: [{ do: "wait", reason: `${input.demand.inFlight} requests in flight may still be answered` }],
      requeueMs: spec.probe.intervalSeconds * 1000,
    };
  }
  return undefined;
}
