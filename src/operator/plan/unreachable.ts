import { at, type SlotInput } from "./input.ts";
import type { Verdict } from "./verdict.ts";

export const unreachableReason = "RuntimeUnavailable";
/** A restarting daemon is back within this time; requests wait that long (DECISIONS 9). */
const firstRetryMs = 10_000;
const laterRetryMs = 30_000;

/**
 * The runtime does not answer. Nothing is started, stopped or counted as a failure; an engine that still answers its
 * probe stays in service, and the others report the reason.
 */
export function runtimeUnreachable(input: SlotInput): Verdict | undefined {
  if (input.runtimeError === undefined) return undefined;
  if (!input.want.load && input.observed.length === 0) return undefined;
  return {
    severity: "retrying",
    reason: unreachableReason,
    message: input.runtimeError,
    steps: [{ do: "wait", reason: `${input.runtimeError}; it must answer first` }],
    requeueMs: 1000,
  };
}

/** The runtime is tried continuously; this is the time for the clients' next attempt. */
export function runtimeUnreachableUntil({ before, now }: SlotInput): Date {
  const wasUnreachable = before?.status.conditions.some(
    ({ type, reason }) => type === "Ready" && reason === unreachableReason,
  );
  const planned = wasUnreachable === true ? at(before?.status.nextRetryAt) : undefined;
  if (planned === undefined) return new Date(now.getTime() + firstRetryMs);
  const leftMs = planned - now.getTime();
  return leftMs > 0 && leftMs <= laterRetryMs ? new Date(planned) : new Date(now.getTime() + laterRetryMs);
}
