import { describeDiagnostics } from "../../api/diagnostic.ts";
import { backingOff, crashed, outdated, restarted, stalled, startupFailed, unhealthy, unreachable } from "./failing.ts";
import type { Check } from "./facts.ts";
import type { SlotInput } from "./input.ts";
import { lent, memoryAwaited, preempted, ungranted } from "./group.ts";
import { withReplacement } from "./growth.ts";
import { learningSteps } from "./learning.ts";
import { coming, drifted, loaded, notRunning, pending } from "./loading.ts";
import { notPrepared } from "./preparing.ts";
import { swapping } from "./swapping.ts";
import { runtimeUnreachable } from "./unreachable.ts";
import { mustRestart, unloadingEnds } from "./replacing.ts";
import { unannounced } from "./unannounced.ts";
import { cannotLoad, noFreePort, notWanted, portConflict, refused } from "./unloading.ts";
import { compose, type Judged } from "./compose.ts";
import { processInputs, type ProcessCheck, type ProcessInput } from "./processes.ts";
import type { Decision } from "./decision.ts";

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
export function plan(input: SlotInput): Decision & { readonly check: string } {
  const { check, ...judged } = judge(input);
  const { steps, ...decided } = withReplacement(input, unannounced(input, judged));
  const decision = { ...decided, steps: [...learningSteps(input), ...steps], check };
  const againMs = input.onRequest?.requeueMs;
  if (againMs === undefined) return decision;
  return { ...decision, requeueMs: Math.min(decision.requeueMs ?? Infinity, againMs) };
}

function judge(input: SlotInput): Decision & { readonly check: string } {
  for (const [check, decide] of checks) {
    const decision = decide(input);
    if (decision !== undefined) return { ...decision, check };
  }
  const [first, ...others] = processInputs(input).map((own) => judgeProcess(own));
  if (first === undefined) throw new Error(`slot ${input.name} is wanted and has no process`);
  return others.length === 0 && input.before?.status.processFailures === undefined
    ? { ...first.decision, check: first.check }
    : compose(input, [first, ...others]);
}

function judgeProcess(input: ProcessInput): Judged {
  for (const [rank, [check, decide]] of processChecks.entries()) {
    const decision = decide(input);
    if (decision !== undefined) return { input, decision, check, rank };
  }
  return { input, decision: loaded(input), check: "loaded", rank: processChecks.length };
}

function neverValid(input: SlotInput): Decision | undefined {
  if (input.spec !== undefined) return undefined;
  const message = describeDiagnostics(input.diagnostics);
  return { state: "error", conditionSet: "stalled", reason: "InvalidSpec", message, steps: [] };
}
