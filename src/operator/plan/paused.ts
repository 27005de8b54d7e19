import { isMainServing, running, wasState } from "./facts.ts";
import type { SlotInput } from "./input.ts";
import { isLearning } from "./learning.ts";
import { withoutFailures } from "./compose.ts";
import type { Decision } from "./decision.ts";

/**
 * The decision of an operator that may not act: the same plan, and the state without it. Pure, and stable: a published
 * failure is not counted again.
 */
export function pausedDecision(input: SlotInput, decided: Decision): Decision {
  const { failure } = decided;
  const acts = decided.steps.some((step) => step.do !== "wait" && !isLearning(step));
  if (failure !== undefined) {
    const status = input.before?.status;
    const isKnown = (status?.failures ?? 0) > 0 && status?.lastError?.message === failure.message.slice(0, 2000);
    return isKnown ? withoutFailures(decided) : decided;
  }
  if (!acts) return decided;
  const held = { reason: "Paused", message: `paused: ${decided.message}`, steps: decided.steps } as const;
  const state = wasState(input);
  const main = running(input).find(({ role }) => role === "main");
  if (state === "unloading" && running(input).length > 0) return { ...held, state, conditionSet: "unloading" };
  if (main === undefined) return { ...held, state: "offline", conditionSet: "paused" };
  if (isMainServing(input)) return { ...held, state: "ready", conditionSet: "loadedProgressing" };
  const isStarting = !main.isListening && state !== "ready";
  return { ...held, state: isStarting ? "starting" : "warming", conditionSet: "progressing" };
}
