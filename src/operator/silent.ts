import { at, type SlotInput } from "./input.ts";
import type { Verdict } from "./verdict.ts";
import { wanted } from "./wanted.ts";

export const silentReason = "RuntimeUnavailable";
/** A daemon that is restarted is back by then; requests wait that long (DECISIONS 9). */
const shortSilenceMs = 10_000;
const longSilenceMs = 30_000;

/**
 * The runtime does not answer. Nothing is started, stopped or counted as a failure; what still answers its probe stays
 * in service, and the rest says why it is not.
 */
export function silent(input: SlotInput): Verdict | undefined {
  if (input.silence === undefined) return undefined;
  if (!wanted(input).load && input.observed.length === 0) return undefined;
  const isServing =
    input.observed.length > 0 &&
    input.observed.every(({ role }) => input.health[role]?.isWarm === true && input.health[role].isHealthy);
  return {
    state: isServing ? "ready" : "error",
    row: isServing ? "loadedRetrying" : "retrying",
    reason: silentReason,
    message: input.silence,
    steps: [{ do: "wait", reason: "the container engine must answer first" }],
    requeueMs: 1000,
  };
}

/** The runtime is asked all the time; this is when those who ask for the slot had better ask again. */
export function silentUntil({ before, now }: SlotInput): Date {
  const wasSilent = before?.status.conditions.some(({ type, reason }) => type === "Ready" && reason === silentReason);
  const planned = wasSilent === true ? at(before?.status.nextRetryAt) : undefined;
  if (planned === undefined) return new Date(now.getTime() + shortSilenceMs);
  const leftMs = planned - now.getTime();
  return leftMs > 0 && leftMs <= longSilenceMs ? new Date(planned) : new Date(now.getTime() + longSilenceMs);
}
