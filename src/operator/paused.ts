import { isMainServing, running, wasState } from "./facts.ts";
import type { SlotInput } from "./input.ts";
import type { Verdict } from "./verdict.ts";

/**
 * The verdict of an operator that may not act: the same plan, and a state that says what is so without it. Pure, and
 * stable: a failure that was published is not counted again.
 */
export function whilePaused(input: SlotInput, decided: Verdict): Verdict {
  const { failure, ...rest } = decided;
  const acts = decided.steps.some((step) => step.do !== "wait");
  if (failure !== undefined) {
    const status = input.before?.status;
    const isKnown = (status?.failures ?? 0) > 0 && status?.lastError?.message === failure.message.slice(0, 2000);
    return isKnown ? rest : decided;
  }
  if (!acts) return decided;
  const held = { reason: "Paused", message: `paused: ${decided.message}`, steps: decided.steps } as const;
  const state = wasState(input);
  const main = running(input).find(({ role }) => role === "main");
  if (state === "unloading" && running(input).length > 0) return { ...held, state, row: "unloading" };
  if (main === undefined) return { ...held, state: "offline", row: "paused" };
  if (isMainServing(input)) return { ...held, state: "ready", row: "loadedProgressing" };
  const isStarting = !main.isListening && state !== "ready";
  return { ...held, state: isStarting ? "starting" : "warming", row: "progressing" };
}
