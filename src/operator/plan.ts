import type { ProcessRole } from "../api/names.ts";
import type { Step } from "../api/plan.ts";
import { isAvailable } from "../api/states.ts";
import type { Observed, Workload } from "../api/workload.ts";
import { isRefusal } from "../engines/engine.ts";
import { at, requestOf, type SlotInput } from "./input.ts";
import type { OperatorState, Verdict } from "./verdict.ts";
import { silent } from "./silent.ts";
import { idleInMs, wanted } from "./wanted.ts";

/** One rule: what follows when it applies, undefined when it does not. First hit wins. */
type Check = (input: SlotInput) => Verdict | undefined;

/** In this order. A new rule is one function, one line here, one row in the table test. */
const checks: readonly [name: string, check: Check][] = [
  ["neverValid", neverValid],
  ["silent", silent],
  ["notWanted", notWanted],
  ["portConflict", portConflict],
  ["noFreePort", noFreePort],
  ["refused", refused],
  ["mustRestart", mustRestart],
  ["unloadingEnds", unloadingEnds],
  ["crashed", crashed],
  ["stalled", stalled],
  ["backingOff", backingOff],
  ["drifted", drifted],
  ["missing", missing],
  ["startupFailed", startupFailed],
  ["unhealthy", unhealthy],
  ["coming", coming],
];

/** Decides. Pure: the same input gives the same verdict, and it explains itself. */
export function plan(input: SlotInput): Verdict & { readonly check: string } {
  for (const [check, judge] of checks) {
    const verdict = judge(input);
    if (verdict !== undefined) return { ...verdict, check };
  }
  return { ...loaded(input), check: "loaded" };
}

const running = (input: SlotInput): readonly Observed[] => input.observed.filter(({ phase }) => phase === "running");
const exited = (input: SlotInput): readonly Observed[] => input.observed.filter(({ phase }) => phase === "exited");
const wasState = (input: SlotInput): string => input.before?.status.state ?? "offline";

/** The process that the slot's state speaks of still answers; only a second one is in trouble. */
function isMainServing(input: SlotInput): boolean {
  return (
    wasState(input) === "ready" &&
    running(input).some(({ role }) => role === "main") &&
    input.health.main?.isWarm === true
  );
}

/** Failures before an edit, or before somebody asked for a restart or load, no longer count. */
export function failuresInForce(input: SlotInput): number {
  const { before } = input;
  if (before === undefined || before.specHash !== input.specHash) return 0;
  const askedAt = Math.max(at(requestOf(input, "restart")?.requestedAt), at(requestOf(input, "load")?.requestedAt));
  return askedAt > at(before.status.lastError?.time) ? 0 : before.status.failures;
}

function stop(processes: readonly Observed[], reason: string): Step[] {
  return processes.map(({ role }) => ({ do: "stop", role, reason }));
}

function neverValid(input: SlotInput): Verdict | undefined {
  if (input.spec !== undefined) return undefined;
  const message = diagnosis(input);
  return { state: "error", row: "stalled", reason: "InvalidSpec", message, steps: [] };
}

function diagnosis(input: SlotInput): string {
  const lines = input.diagnostics.map(({ file, line, column, path, message }) => {
    const place = [file, line, column].filter((part) => part !== undefined).join(":");
    return `${place}: ${path === undefined || path.length === 0 ? "" : `${path.join(".")}: `}${message}`;
  });
  return lines.join("\n");
}

/** What somebody else has changed is put right without a restart. */
function drifted(input: SlotInput): Verdict | undefined {
  const process = running(input).find(({ drift }) => drift !== undefined);
  const workload = workloadsOf(input).find(({ role }) => role === process?.role);
  if (process?.drift === undefined || workload === undefined) return undefined;
  const isServing = isMainServing(input);
  return {
    state: isServing ? "ready" : "starting",
    row: isServing ? "loadedRetrying" : "progressing",
    ...process.drift,
    steps: [start(workload, process.drift.message)],
    requeueMs: 0,
  };
}

function notWanted(input: SlotInput): Verdict | undefined {
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
function leave(input: SlotInput, processes: readonly Observed[], reason: string, message: string): Verdict {
  const result = { state: "unloading", row: "unloading", reason, message } as const;
  const status = input.before?.status;
  const isDraining = status?.state === "unloading";
  const alive = processes.filter(({ phase }) => phase === "running");
  if (alive.length === 0 || status === undefined || !(isDraining || isAvailable(status.state))) {
    return { ...result, steps: stop(processes, message) };
  }
  const since = isDraining ? at(status.transitions.findLast(({ to }) => to === "unloading")?.at) : input.now.getTime();
  const deadline = since + (input.spec?.stopSeconds ?? 30) * 1000;
  const left = deadline - input.now.getTime();
  const isReleased =
    isDraining && input.demand.inFlight === 0 && input.demand.seenRevision >= (input.before?.revision ?? 0);
  if (isReleased || left <= 0) return { ...result, steps: stop(processes, message) };
  return {
    ...result,
    steps: [{ do: "drain", reason: message, deadline: new Date(deadline).toISOString() }, ...stop(processes, message)],
    requeueMs: left,
  };
}

/** What cannot be had: keep what runs, or say that nothing can. */
function withoutNext(input: SlotInput, reason: string, message: string, isTerminal: boolean): Verdict {
  const steps: Step[] = isTerminal ? [] : [{ do: "wait", reason: message }];
  if (running(input).length > 0 && isAvailable(input.before?.status.state ?? "offline")) {
    return { state: "ready", row: isTerminal ? "loadedStalled" : "loadedRetrying", reason, message, steps };
  }
  if (input.observed.length > 0) return leave(input, input.observed, reason, message);
  return { state: "error", row: isTerminal ? "stalled" : "retrying", reason, message, steps };
}

function portConflict(input: SlotInput): Verdict | undefined {
  const conflict = input.conflicts.port;
  if (conflict === undefined) return undefined;
  const message = `port ${conflict.port} belongs to slot ${conflict.holder}`;
  return withoutNext(input, "PortConflict", message, true);
}

function noFreePort(input: SlotInput): Verdict | undefined {
  if (!isRefusal(input.workloads) || input.workloads.reason !== "NoFreePort") return undefined;
  const { reason, message } = input.workloads;
  return { ...withoutNext(input, reason, message, false), requeueMs: 5000 };
}

function refused(input: SlotInput): Verdict | undefined {
  if (!isRefusal(input.workloads)) return undefined;
  return withoutNext(input, input.workloads.reason, input.workloads.message, true);
}

function workloadsOf(input: SlotInput): readonly Workload[] {
  return isRefusal(input.workloads) ? [] : input.workloads;
}

function mustRestart(input: SlotInput): Verdict | undefined {
  const restart = requestOf(input, "restart");
  const workloads = workloadsOf(input);
  const reasons = new Map<ProcessRole, string>();
  for (const process of running(input)) {
    const workload = workloads.find(({ role }) => role === process.role);
    if (workload === undefined) reasons.set(process.role, `the slot no longer needs its ${process.role} process`);
    else if (process.hash !== workload.hash) reasons.set(process.role, changeOf(input));
    else if (process.port !== workload.port) reasons.set(process.role, `its port is now ${workload.port}`);
    else if (restart !== undefined && process.startedAt.getTime() < at(restart.requestedAt)) {
      reasons.set(process.role, `restart requested at ${restart.requestedAt}`);
    }
  }
  const [message] = reasons.values();
  if (message === undefined) return undefined;
  const leaving = running(input).filter(({ role }) => reasons.has(role));
  const rest = leaving.length < running(input).length ? " (its other process keeps serving)" : "";
  const verdict = leave(input, leaving, "Changed", message);
  const starts: Step[] = workloads.filter(({ role }) => reasons.has(role)).map((workload) => start(workload, message));
  return { ...verdict, message: message + rest, steps: [...verdict.steps, ...starts] };
}

/** Once gateways were told `unloading` it is seen through, even if the slot is wanted again meanwhile. */
function unloadingEnds(input: SlotInput): Verdict | undefined {
  if (wasState(input) !== "unloading" || running(input).length === 0) return undefined;
  return leave(input, running(input), "Unloading", "it was being unloaded when it became wanted again");
}

function changeOf(input: SlotInput): string {
  const previous = input.before?.status.model.ref;
  const next = input.held.ref;
  return previous !== undefined && next !== undefined && previous !== next
    ? `the model changed from ${previous} to ${next}`
    : "what the engine is started with has changed";
}

function start(workload: Workload, reason: string): Step {
  const command = workload.command
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : JSON.stringify(word)))
    .join(" ");
  return { do: "start", role: workload.role, port: workload.port, command, reason };
}

function crashed(input: SlotInput): Verdict | undefined {
  const gone = exited(input);
  const vanished = workloadsOf(input).filter(
    ({ role }) =>
      (wasState(input) === "starting" || wasState(input) === "warming" || wasState(input) === "ready") &&
      input.before?.status.processes.some((process) => process.role === role) === true &&
      !input.observed.some((process) => process.role === role),
  );
  const [first] = gone;
  if (first === undefined && vanished.length === 0) return undefined;
  const reason = first?.exit?.reason ?? (first === undefined ? "Vanished" : "Unknown");
  const message = first?.exit?.message ?? "the engine is gone and nobody saw it end";
  const isTerminal = reason === "StartFailed";
  const failure = { reason, message, isTerminal };
  const isServing = isMainServing(input);
  const verdict = {
    reason,
    message,
    failure,
    steps: stop(gone, "clear what has exited"),
    requeueMs: 0,
  };
  if (isServing) return { state: "ready", row: isTerminal ? "loadedStalled" : "loadedRetrying", ...verdict };
  return { state: "error", row: isTerminal ? "stalled" : "retrying", ...verdict };
}

function needsStart(input: SlotInput): readonly Workload[] {
  return workloadsOf(input).filter(({ role }) => !input.observed.some((process) => process.role === role));
}

/** After a failure that only a person can mend nothing is tried until the spec changes or somebody asks. */
function stalled(input: SlotInput): Verdict | undefined {
  const status = input.before?.status;
  if (status?.lastError === undefined || needsStart(input).length === 0) return undefined;
  if (failuresInForce(input) === 0 || status.nextRetryAt !== undefined) return undefined;
  const { reason, message } = status.lastError;
  const isServing = isMainServing(input);
  return {
    state: isServing ? "ready" : "error",
    row: isServing ? "loadedStalled" : "stalled",
    reason,
    message,
    steps: [],
  };
}

function backingOff(input: SlotInput): Verdict | undefined {
  const status = input.before?.status;
  if (status?.nextRetryAt === undefined || needsStart(input).length === 0 || failuresInForce(input) === 0)
    return undefined;
  const left = at(status.nextRetryAt) - input.now.getTime();
  if (left <= 0) return undefined;
  const { reason, message } = status.lastError ?? { reason: "Failed", message: "it failed" };
  const isServing = isMainServing(input);
  return {
    state: isServing ? "ready" : "error",
    row: isServing ? "loadedRetrying" : "retrying",
    reason,
    message,
    steps: [{ do: "wait", reason: `failure ${status.failures} in a row; next try`, until: status.nextRetryAt }],
    requeueMs: left,
  };
}

function missing(input: SlotInput): Verdict | undefined {
  const starts = needsStart(input);
  if (starts.length === 0) return undefined;
  const want = wanted(input);
  const failures = failuresInForce(input);
  const reason = failures > 0 ? `try again after failure ${failures}` : want.load ? want.reason : "it is wanted";
  const isServing = isMainServing(input);
  return {
    state: isServing ? "ready" : "starting",
    row: isServing ? "loadedProgressing" : "progressing",
    reason: "Starting",
    message: reason,
    steps: starts.map((workload) => start(workload, reason)),
    requeueMs: 20,
  };
}

function fail(input: SlotInput, process: Observed, reason: string, message: string): Verdict {
  const isServing = process.role !== "main" && isMainServing(input);
  return {
    state: isServing ? "ready" : "error",
    row: isServing ? "loadedRetrying" : "retrying",
    reason,
    message,
    failure: { reason, message, isTerminal: false },
    steps: stop([process], message),
    requeueMs: 0,
  };
}

function startupFailed(input: SlotInput): Verdict | undefined {
  const limit = input.spec?.probe.startupSeconds ?? 600;
  for (const process of running(input)) {
    const health = input.health[process.role];
    if (health?.isWarm === true) continue;
    if (process.isPortTaken && !process.isListening) {
      return fail(input, process, "PortInUse", `another process listens on port ${process.port}`);
    }
    if (input.now.getTime() - process.startedAt.getTime() > limit * 1000) {
      const seen = health?.message === undefined || health.message === "" ? "it never listened" : health.message;
      return fail(input, process, "StartupTimeout", `not healthy after ${limit} s: ${seen}`);
    }
  }
  return undefined;
}

function unhealthy(input: SlotInput): Verdict | undefined {
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

/** Quick looks at first, then slower: a tenth of the time it has taken so far, 20 to 500 ms. */
function lookAgainMs(input: SlotInput, process: Observed): number {
  return Math.min(500, Math.max(20, (input.now.getTime() - process.startedAt.getTime()) / 10));
}

function coming(input: SlotInput): Verdict | undefined {
  const process = running(input).find(({ role }) => input.health[role]?.isWarm !== true);
  if (process === undefined) return undefined;
  const health = input.health[process.role];
  const isServing = process.role !== "main" && isMainServing(input);
  const verdict = (state: OperatorState, message: string, steps: Step[], requeueMs: number): Verdict => ({
    state: isServing ? "ready" : state,
    row: isServing ? "loadedProgressing" : "progressing",
    reason: state === "starting" ? "Starting" : "Warming",
    message,
    steps,
    requeueMs,
  });
  const again = lookAgainMs(input, process);
  if (!process.isListening) {
    const message = `the ${process.role} process does not listen on port ${process.port} yet`;
    return verdict("starting", message, [{ do: "wait", reason: message }], again);
  }
  if (health?.isHealthy !== true) {
    const message = "the engine loads its model";
    return verdict("warming", message, [{ do: "wait", reason: message }], again);
  }
  return verdict(
    "warming",
    "a first request proves that the model answers",
    [{ do: "warm", role: process.role, reason: "the probe passed" }],
    0,
  );
}

function loaded(input: SlotInput): Verdict {
  const { spec } = input;
  const soonest = [(spec?.probe.intervalSeconds ?? 5) * 1000, idleInMs(input)];
  const requeueMs = Math.max(1, Math.min(...soonest.filter((ms) => ms !== undefined)));
  const held = input.held.ref === undefined ? "its command" : input.held.ref;
  return { state: "ready", row: "loaded", reason: "Loaded", message: `${held} is loaded`, steps: [], requeueMs };
}
