import type { Step } from "../api/plan.ts";
import type { Observed } from "../api/workload.ts";
import {
  failuresInForce,
  isMainServing,
  needsStart,
  nextProbe,
  running,
  start,
  startOf,
  workloadsOf,
} from "./facts.ts";
import type { SlotInput } from "./input.ts";
import type { Verdict } from "./verdict.ts";
import { idleInMs, wanted } from "./wanted.ts";

/** A process that is wanted does not run. */
export function missing(input: SlotInput): Verdict | undefined {
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

/** What somebody else has changed is put right without a restart. */
export function drifted(input: SlotInput): Verdict | undefined {
  const process = running(input).find(({ drift }) => drift !== undefined);
  const workload = workloadsOf(input).find(({ role }) => role === process?.role);
  if (process?.drift === undefined || workload === undefined) return undefined;
  const isServing = isMainServing(input);
  return {
    state: isServing ? "ready" : "starting",
    row: isServing ? "loadedRetrying" : "progressing",
    ...process.drift,
    steps: [{ do: "repair", role: workload.role, reason: process.drift.message }],
    requeueMs: 0,
  };
}

/** Quick looks at first, then slower: a tenth of the time it has taken so far, and what nobody feels: 20 to 200 ms. */
function lookAgainMs(input: SlotInput, process: Observed): number {
  return Math.min(200, Math.max(20, (input.now.getTime() - startOf(input, process)) / 10));
}

/** A process has been started and is not ready yet. */
export function coming(input: SlotInput): Verdict | undefined {
  const process = running(input).find(({ role }) => input.health[role]?.isWarm !== true);
  if (process === undefined) return undefined;
  const health = input.health[process.role];
  const isServing = process.role !== "main" && isMainServing(input);
  const verdict = (state: "starting" | "warming", message: string, step: Step): Verdict => ({
    state: isServing ? "ready" : state,
    row: isServing ? "loadedProgressing" : "progressing",
    reason: state === "starting" ? "Starting" : "Warming",
    message,
    steps: [step],
    requeueMs: lookAgainMs(input, process),
  });
  if (!process.isListening) {
    const message = `the ${process.role} process does not listen on port ${process.port} yet`;
    return verdict("starting", message, { do: "wait", reason: message });
  }
  if (health?.isHealthy !== true) {
    const message = "the engine loads its model";
    return verdict("warming", message, { do: "wait", reason: message });
  }
  const why = health.message === "" ? "the probe passed" : `the last try failed: ${health.message}`;
  const proof = "a first request proves that the model answers";
  const message = health.message === "" ? proof : `${proof}; ${why}`;
  const restMs = (health.warmUpAt?.getTime() ?? 0) - input.now.getTime();
  if (health.warmUpAt === undefined || restMs <= 0) {
    return verdict("warming", message, { do: "warm", role: process.role, reason: why });
  }
  const step = { do: "wait", reason: `${why}; next try`, until: health.warmUpAt.toISOString() } as const;
  return { ...verdict("warming", message, step), requeueMs: restMs };
}

/** All that is wanted runs and answers: the last rule, which always applies. */
export function loaded(input: SlotInput): Verdict {
  const { spec } = input;
  const now = input.now.getTime();
  const soonest = [spec === undefined ? 5000 : nextProbe(now, spec) - now, idleInMs(input)];
  const requeueMs = Math.max(1, Math.min(...soonest.filter((ms) => ms !== undefined)));
  const held = input.held.ref === undefined ? "its command" : input.held.ref;
  return { state: "ready", row: "loaded", reason: "Loaded", message: `${held} is loaded`, steps: [], requeueMs };
}
