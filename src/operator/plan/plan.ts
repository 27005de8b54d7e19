import { describeDiagnostics } from "../../api/diagnostic.ts";
import type { SlotState } from "../../api/states.ts";
import { backingOff, crashed, outdated, restarted, stalled, startupFailed, unhealthy, unreachable } from "./failing.ts";
import { wasState, type Check } from "./facts.ts";
import type { SlotInput } from "./input.ts";
import { lent, memoryAwaited, preempted, ungranted } from "./group.ts";
import { withReplacement } from "./growth.ts";
import { learningSteps } from "./learning.ts";
import { coming, drifted, loaded, notRunning, pending } from "./loading.ts";
import { notPrepared } from "./preparing.ts";
import { swapping } from "./swapping.ts";
import { runtimeUnreachable } from "./unreachable.ts";
import { mustRestart, unloadingEnds } from "./replacing.ts";
import { cannotLoad, noFreePort, notWanted, portConflict, refused } from "./unloading.ts";
import { compose, type Judged } from "./compose.ts";
import { processInputs, type ProcessCheck, type ProcessInput } from "./processes.ts";
import { isServed, stateOf, type Decision } from "./decision.ts";
import type { Verdict } from "./verdict.ts";

/**
 * About the slot, in this order; first hit wins. A new rule is one function, one line here, one row in the table test.
 */
const checks: readonly [name: string, check: Check][] = [
  ["neverValid", neverValid],
  ["runtimeUnreachable", runtimeUnreachable],
  ["cannotLoad", cannotLoad],
  ["preempted", preempted],
  ["lent", lent],
  ["notWanted", notWanted],
  ["portConflict", portConflict],
  ["memoryAwaited", memoryAwaited],
  ["noFreePort", noFreePort],
  ["refused", refused],
  ["unprepared", notPrepared],
  ["swapping", swapping],
];

/** About each process of the slot, in this order; first hit wins. */
const processChecks: readonly [name: string, check: ProcessCheck][] = [
  ["mustRestart", mustRestart],
  ["unloadingEnds", unloadingEnds],
  ["restarted", restarted],
  ["outdated", outdated],
  ["crashed", crashed],
  ["stalled", stalled],
  ["backingOff", backingOff],
  ["drifted", drifted],
  ["ungranted", ungranted],
  ["notRunning", notRunning],
  ["unreachable", unreachable],
  ["pending", pending],
  ["startupFailed", startupFailed],
  ["unhealthy", unhealthy],
  ["coming", coming],
];

/** Decides. Pure: the same input gives the same decision, with its reasons. */
export function plan(input: SlotInput): Decision {
  const { steps, ...decided } = withReplacement(input, announced(input, judge(input)));
  const decision = { ...decided, steps: [...learningSteps(input), ...steps] };
  const againMs = input.onRequest?.requeueMs;
  if (againMs === undefined) return decision;
  return { ...decision, requeueMs: Math.min(decision.requeueMs ?? Infinity, againMs) };
}

function judge(input: SlotInput): Decision {
  for (const [check, judged] of checks) {
    const verdict = judged(input);
    if (verdict === undefined) continue;
    const served = isServed(input, verdict.steps);
    return { ...verdict, state: stateOf(verdict, served), isServed: served, check };
  }
  const [first, ...others] = processInputs(input).map((own) => judgeProcess(own));
  if (first === undefined) throw new Error(`slot ${input.name} is wanted and has no process`);
  return compose(input, [first, ...others]);
}

function judgeProcess(input: ProcessInput): Judged {
  for (const [rank, [check, judged]] of processChecks.entries()) {
    const verdict = judged(input);
    if (verdict !== undefined) return { input, verdict, check, rank };
  }
  return { input, verdict: loaded(input), check: "loaded", rank: processChecks.length };
}

/** The states from which a process is started: `starting` always follows them. */
const beforeStart: ReadonlySet<SlotState> = new Set(["unloading", "pulling"]);

/**
 * An engine may be further than the published state allows: a Pod that has pulled its image itself, or an engine whose
 * operator was killed before it could publish `starting`. Then `starting` is published first, and the next reconcile acts.
 */
function announced(input: SlotInput, decision: Decision): Decision {
  const isAhead = decision.state === "warming" || decision.state === "ready";
  if (!isAhead || decision.failure !== undefined || !beforeStart.has(wasState(input))) return decision;
  const message = "its process has started";
  return {
    severity: "progressing",
    state: "starting",
    isServed: false,
    reason: "Starting",
    message,
    steps: [{ do: "wait", reason: message }],
    requeueMs: 0,
    check: decision.check,
  };
}

function neverValid(input: SlotInput): Verdict | undefined {
  if (input.spec !== undefined) return undefined;
  return { severity: "stalled", reason: "InvalidSpec", message: describeDiagnostics(input.diagnostics), steps: [] };
}
