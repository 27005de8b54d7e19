import { canMove } from "../../api/states.ts";
import { withoutFailures } from "./compose.ts";
import { isServed, stateOf, type Decision } from "./decision.ts";
import { running, wasState } from "./facts.ts";
import type { SlotInput } from "./input.ts";
import { isLearning } from "./learning.ts";
import type { Standing } from "./verdict.ts";

/**
 * The decision of an operator that may not act: the same plan, and the state without it. Pure, and stable: a published
 * failure is not counted again.
 */
export function pausedDecision(input: SlotInput, decided: Decision): Decision {
  const { failure, steps, check } = decided;
  if (failure !== undefined) {
    const status = input.before?.status;
    const isKnown = (status?.failures ?? 0) > 0 && status?.lastError?.message === failure.message.slice(0, 2000);
    return isKnown ? withoutFailures(decided) : decided;
  }
  if (!steps.some((step) => step.do !== "wait" && !isLearning(step))) return decided;
  const standing = standingOf(input);
  const served = isServed(input);
  const message = `paused: ${decided.message}`;
  return { ...standing, state: stateOf(standing, served), isServed: served, reason: "Paused", message, steps, check };
}

function standingOf(input: SlotInput): Standing {
  const state = wasState(input);
  const main = running(input).find(({ role }) => role === "main");
  if (state === "unloading" && running(input).length > 0) return { severity: "leaving" };
  if (main === undefined) return { severity: canMove(state, "offline") ? "waiting" : "retrying" };
  const isStarting = !main.isListening && state !== "ready";
  return { severity: "progressing", phase: isStarting ? "starting" : "warming" };
}
