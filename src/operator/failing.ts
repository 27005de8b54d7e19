import type { Observed } from "../api/workload.ts";
import {
  failuresInForce,
  isMainServing,
  memoryReason,
  needsStart,
  publishedProcess,
  running,
  startOf,
  stop,
  wasState,
  workloadsOf,
} from "./facts.ts";
import { at, type SlotInput } from "./input.ts";
import { loaded } from "./loading.ts";
import { tellsOfMemory } from "../runtimes/trouble.ts";
import { silentReason } from "./silent.ts";
import { leave } from "./unloading.ts";
import type { Verdict } from "./verdict.ts";

/** Only a person can mend these: nothing is tried until the spec changes or somebody asks. */
const terminalReasons: ReadonlySet<string> = new Set(["StartFailed"]);
/** An engine that was ready for this long and ends has not failed to start (DECISIONS 9). */
export const steadyMs = 60_000;

/**
 * What has ended before it was ready was started for an earlier spec, as when somebody saves twice: that says nothing
 * of this one, which starts from nothing. A workload that changes without an edit is no such case: its failures count.
 */
export function outdated(input: SlotInput): Verdict | undefined {
  if (input.before === undefined || input.before.specHash === input.specHash) return undefined;
  const past = input.observed.filter(({ role, phase, hash }) => {
    const workload = workloadsOf(input).find((each) => each.role === role);
    const isPast = phase === "exited" && workload !== undefined && workload.hash !== hash;
    return isPast && publishedProcess(input, role)?.isReady !== true;
  });
  if (past.length === 0) return undefined;
  const isServing = isMainServing(input);
  const message = "what has ended was started for an earlier spec";
  return {
    state: isServing ? "ready" : "starting",
    row: isServing ? "loadedProgressing" : "progressing",
    reason: "Changed",
    message,
    steps: stop(past, message),
    requeueMs: 0,
  };
}

/** What ran has exited, or has vanished. */
export function crashed(input: SlotInput): Verdict | undefined {
  const gone = input.observed.filter(({ phase }) => phase === "exited");
  const wasComing = wasState(input) === "starting" || wasState(input) === "warming" || wasState(input) === "ready";
  const vanished = workloadsOf(input).find(
    ({ role }) =>
      wasComing &&
      publishedProcess(input, role) !== undefined &&
      !input.observed.some((process) => process.role === role),
  );
  const [first] = gone;
  if (first === undefined && vanished === undefined) return undefined;
  const said = first?.exit?.message ?? "the engine is gone and nobody saw it end";
  const hasRunOut = tellsOfMemory(said);
  const reason = hasRunOut ? memoryReason : (first?.exit?.reason ?? (first === undefined ? "Vanished" : "Unknown"));
  // Loading the same weights again would end the same way. An engine that had been ready had memory for its weights: what
  // it lacked beside them may be there the next time.
  const isTerminal =
    terminalReasons.has(reason) ||
    (hasRunOut && first !== undefined && publishedProcess(input, first.role)?.isReady !== true);
  const next = "tried again once another slot gives memory back, after an edit or when asked for";
  const message = hasRunOut && isTerminal ? `${said}; ${next}` : said;
  const startedAt = first?.startedAt ?? (vanished && publishedProcess(input, vanished.role)?.startedAt);
  return failure(input, {
    reason,
    message,
    isTerminal,
    isSteady: wasSteady(input, at(startedAt)),
    gone,
    steps: stop(gone, "clear what has exited"),
  });
}

/** The same container, and another start that is not ours: its model is gone with the old one. */
export function restarted(input: SlotInput): Verdict | undefined {
  const again = running(input).find(({ role, id, startedAt }) => {
    const known = publishedProcess(input, role);
    if (known?.containerId === undefined || !("containerId" in id) || known.containerId !== id.containerId)
      return false;
    return known.startedAt !== undefined && known.startedAt !== startedAt.toISOString();
  });
  if (again === undefined) return undefined;
  const message = "somebody else restarted its container";
  // Somebody's wish, and no failure of the engine: it does not add to those before.
  return failure(input, { reason: "Restarted", message, isSteady: true, gone: [again], steps: [] });
}

/** The slot, and this very process, had been ready for long. */
function wasSteady(input: SlotInput, startedAtMs: number): boolean {
  const readySince = input.before?.status.readySince;
  return readySince !== undefined && input.now.getTime() - Math.max(at(readySince), startedAtMs) >= steadyMs;
}

function failure(
  input: SlotInput,
  {
    reason,
    message,
    isTerminal = terminalReasons.has(reason),
    isSteady,
    gone,
    steps,
  }: Pick<Verdict, "reason" | "message" | "steps"> & {
    isTerminal?: boolean;
    isSteady: boolean;
    gone: readonly Observed[];
  },
): Verdict {
  const isServing = isMainServing(input) && !gone.some(({ role }) => role === "main");
  return {
    state: isServing ? "ready" : "error",
    row: isServing ? (isTerminal ? "loadedStalled" : "loadedRetrying") : isTerminal ? "stalled" : "retrying",
    reason,
    message,
    failure: { reason, message, isTerminal, isSteady },
    steps,
    requeueMs: 0,
  };
}

/** After a failure that only a person can mend. */
export function stalled(input: SlotInput): Verdict | undefined {
  const { lastError, nextRetryAt } = input.before?.status ?? {};
  if (lastError === undefined) return undefined;
  const isTerminal =
    terminalReasons.has(lastError.reason) || (lastError.reason === memoryReason && nextRetryAt === undefined);
  if (!isTerminal) return undefined;
  if (needsStart(input).length === 0 || failuresInForce(input) === 0) return undefined;
  const isServing = isMainServing(input);
  const { reason, message } = lastError;
  return {
    state: isServing ? "ready" : "error",
    row: isServing ? "loadedStalled" : "stalled",
    reason,
    message,
    steps: [],
  };
}

/** After a failure the next start waits for its time. */
export function backingOff(input: SlotInput): Verdict | undefined {
  const status = input.before?.status;
  if (status?.nextRetryAt === undefined || needsStart(input).length === 0 || failuresInForce(input) === 0)
    return undefined;
  // That time was for a runtime that has answered since.
  if (status.lastError?.reason === silentReason) return undefined;
  const left = at(status.nextRetryAt) - input.now.getTime();
  if (left <= 0) return undefined;
  const { reason, message } = status.lastError ?? { reason: "Failed", message: "it failed" };
  const isServing = isMainServing(input);
  return {
    state: isServing ? "ready" : "error",
    row: isServing ? "loadedRetrying" : "retrying",
    reason,
    message,
    steps: [{ do: "wait", reason: waits(input.name, status.failures), until: status.nextRetryAt }],
    requeueMs: left,
  };
}

/** A person need not wait: what was changed or asked for since the failure begins anew. */
function waits(slot: string, failures: number): string {
  return `failure ${failures} in a row; \`berth slot restart ${slot}\` or an edit starts it at once; next try`;
}

function fail(input: SlotInput, process: Observed, reason: string, message: string): Verdict {
  return failure(input, { reason, message, isSteady: false, gone: [process], steps: stop([process], message) });
}

/** What was started does not become ready: a stranger has its port, or its time is over. */
export function startupFailed(input: SlotInput): Verdict | undefined {
  const limit = input.spec?.probe.startupSeconds ?? 600;
  for (const process of running(input)) {
    const health = input.health[process.role];
    if (health?.isWarm === true) continue;
    if (process.isPortTaken && !process.isListening) {
      return fail(input, process, "PortInUse", `another process listens on port ${process.port}`);
    }
    if (input.now.getTime() - startOf(input, process) > limit * 1000) {
      const seen = health?.message === undefined || health.message === "" ? "it never listened" : health.message;
      return fail(input, process, "StartupTimeout", `not healthy after ${limit} s: ${seen}`);
    }
  }
  return undefined;
}

/** A socket may be closed and opened again: its engine is ended when it is still missed this much later. */
const lostMs = 1000;

/**
 * A ready engine lives and its port is its own no more. Where somebody else answers there, every request would be told to
 * a stranger: that is over at once, whoever waits. Where nobody does, requests that are under way may end first.
 */
export function unreachable(input: SlotInput): Verdict | undefined {
  for (const process of running(input)) {
    const { role, port, isPortTaken } = process;
    const lostAt = input.health[role]?.lostAt;
    if (lostAt === undefined) continue;
    if (isPortTaken) return fail(input, process, "PortInUse", `another process has taken port ${port} of the engine`);
    const reason = "NotListening";
    const message = `the ${role} process no longer listens on port ${port}`;
    const leftMs = lostAt.getTime() + lostMs - input.now.getTime();
    if (leftMs > 0) {
      // Where the main process still comes up, that is for the next checks, which look again sooner.
      if (!isMainServing(input)) continue;
      return { ...loaded(input), requeueMs: leftMs };
    }
    const failed = fail(input, process, reason, message);
    if (role !== "main" || input.demand.inFlight === 0 || failed.failure === undefined) return failed;
    return { ...leave(input, [process], reason, message), failure: failed.failure };
  }
  return undefined;
}

/** A ready engine fails its probes, and nobody waits for it or it has been silent too long. */
export function unhealthy(input: SlotInput): Verdict | undefined {
  const { spec } = input;
  if (spec === undefined) return undefined;
  for (const process of running(input)) {
    const health = input.health[process.role];
    if (health?.isWarm !== true || health.failures < spec.probe.failures) continue;
    const message = `${health.failures} probes failed: ${health.message}`;
    const silentMs = input.now.getTime() - at(input.demand.lastByteAt ?? input.demand.lastRequestAt);
    const isHung = silentMs > spec.probe.hungSeconds * 1000;
    if (input.demand.inFlight === 0 || isHung) return fail(input, process, "Unhealthy", message);
    return {
      state: "ready",
      row: "loadedRetrying",
      reason: "Unhealthy",
      message,
      steps: [{ do: "wait", reason: `${input.demand.inFlight} requests in flight may still be answered` }],
      requeueMs: spec.probe.intervalSeconds * 1000,
    };
  }
  return undefined;
}
