import { describeDiagnostics } from "../api/diagnostic.ts";
import { backingOff, crashed, outdated, restarted, stalled, startupFailed, unhealthy, unreachable } from "./failing.ts";
import type { Check } from "./facts.ts";
import type { SlotInput } from "./input.ts";
import { coming, drifted, loaded, missing } from "./loading.ts";
import { unprepared } from "./preparing.ts";
import { silent } from "./silent.ts";
import { cannotLoad, mustRestart, noFreePort, notWanted, portConflict, refused, unloadingEnds } from "./unloading.ts";
import type { Verdict } from "./verdict.ts";

/** In this order; first hit wins. A new rule is one function, one line here, one row in the table test. */
const checks: readonly [name: string, check: Check][] = [
  ["neverValid", neverValid],
  ["silent", silent],
  ["cannotLoad", cannotLoad],
  ["notWanted", notWanted],
  ["portConflict", portConflict],
  ["noFreePort", noFreePort],
  ["refused", refused],
  ["unprepared", unprepared],
  ["mustRestart", mustRestart],
  ["unloadingEnds", unloadingEnds],
  ["restarted", restarted],
  ["outdated", outdated],
  ["crashed", crashed],
  ["stalled", stalled],
  ["backingOff", backingOff],
  ["drifted", drifted],
  ["missing", missing],
  ["unreachable", unreachable],
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

function neverValid(input: SlotInput): Verdict | undefined {
  if (input.spec !== undefined) return undefined;
  const message = describeDiagnostics(input.diagnostics);
  return { state: "error", row: "stalled", reason: "InvalidSpec", message, steps: [] };
}
