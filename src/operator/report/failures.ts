import type { SlotStatus } from "../../api/status.ts";
import { at, type SlotInput } from "../plan/input.ts";
import type { Decision } from "../plan/decision.ts";
import { failuresInForce, isOtherModel, steadyMs } from "../plan/facts.ts";
import { processInput } from "../plan/processes.ts";
import { runtimeUnreachableUntil, unreachableReason } from "../plan/unreachable.ts";
import { isHindered, type Verdict } from "../plan/verdict.ts";
import { backoffMs, type Backoff } from "../plan/backoff.ts";

type Failures = Pick<SlotStatus, "failures" | "lastError" | "nextRetryAt">;

/**
 * Failures in a row, the last error and the next attempt: of the slot, and of each of its processes where it has
 * several.
 */
export function failuresOf(
  input: SlotInput,
  decision: Decision,
  backoff: Backoff,
): Failures & Pick<SlotStatus, "processFailures"> {
  const { parts } = decision;
  if (parts === undefined) return { ...ownFailures(input, decision, backoff), ...keptFailures(input, decision) };
  const all = parts.map(({ verdict, role, ordinal }) => ({
    role,
    ordinal,
    ...ownFailures(processInput(input, { role, ordinal }), verdict, backoff),
  }));
  const [only, ...others] = all;
  if (only !== undefined && others.length === 0) {
    const { role: _role, ordinal: _ordinal, ...failures } = only;
    return failures;
  }
  // A request for the slot waits for the process that may be ready first.
  const mains = all.filter(({ role }) => role === "main").map(({ failures }) => failures);
  const failures = decision.state === "error" ? Math.min(...mains) : Math.max(...all.map((each) => each.failures));
  const lastError = all
    .flatMap((each) => each.lastError ?? [])
    .reduce<SlotStatus["lastError"]>((one, other) => (at(one?.time) > at(other.time) ? one : other), undefined);
  const [nextRetryAt] =
    decision.severity === "retrying" ? all.flatMap((each) => each.nextRetryAt ?? []).toSorted() : [];
  const failed = all.filter((each) => each.failures > 0 || each.lastError !== undefined);
  return {
    failures,
    ...(lastError === undefined ? {} : { lastError }),
    ...(nextRetryAt === undefined ? {} : { nextRetryAt }),
    ...(failed.length === 0 ? {} : { processFailures: failed }),
  };
}

/** While the slot is judged as one, its processes' earlier failures keep counting. */
function keptFailures(input: SlotInput, decision: Verdict): Pick<SlotStatus, "processFailures"> {
  const kept = isHistory(input, decision)
    ? []
    : (input.before?.status.processFailures ?? []).filter((each) => failuresInForce(processInput(input, each)) > 0);
  return kept.length === 0 ? {} : { processFailures: kept };
}

function ownFailures(input: SlotInput, decision: Verdict, backoff: Backoff): Failures {
  const { count, lastError } = countFailures(input, decision);
  const nextRetryAt = retryAt(input, decision, count, backoff);
  return {
    failures: count,
    ...(lastError === undefined ? {} : { lastError }),
    ...(nextRetryAt === undefined ? {} : { nextRetryAt }),
  };
}

function countFailures(
  input: SlotInput,
  decision: Verdict,
): { readonly count: number; readonly lastError: SlotStatus["lastError"] } {
  const before = input.before?.status;
  const inForce = failuresInForce(input);
  const error = { reason: decision.reason, message: decision.message.slice(0, 2000), time: input.now.toISOString() };
  if (decision.failure !== undefined) return { count: decision.failure.isSteady ? 1 : inForce + 1, lastError: error };
  const isNews = isHindered(decision) && before?.lastError?.message !== error.message;
  // An error before the last recovery is history: the transitions have it.
  if (isHistory(input, decision) || isOtherModel(input)) return { count: 0, lastError: undefined };
  return { count: inForce, lastError: isNews ? error : before?.lastError };
}

/**
 * Earlier failures no longer count: the slot and every process of it have been ready for long, or the slot is not
 * wanted any more.
 */
function isHistory(input: SlotInput, { severity, reason }: Verdict): boolean {
  if (severity === "off" && (reason === "NotConfigured" || reason === "Disabled")) return true;
  const readySince = input.before?.status.readySince;
  if (severity !== "loaded" || readySince === undefined) return false;
  const youngest = Math.max(at(readySince), ...input.observed.map(({ startedAt }) => startedAt.getTime()));
  return input.now.getTime() - youngest >= steadyMs;
}

function retryAt(input: SlotInput, decision: Verdict, failures: number, backoff: Backoff): string | undefined {
  if (decision.failure !== undefined) {
    // A process that drains first is restarted as soon as it has ended.
    if (decision.failure.isTerminal || decision.severity === "leaving") return undefined;
    const delay = decision.failure.isSteady ? 0 : backoffMs(failures, backoff);
    return new Date(input.now.getTime() + delay).toISOString();
  }
  if (decision.reason === unreachableReason) return runtimeUnreachableUntil(input).toISOString();
  if (input.unprepared?.state === "failed" && decision.reason === input.unprepared.reason)
    return input.unprepared.retryAt?.toISOString();
  const planned = input.before?.status.nextRetryAt;
  return decision.severity === "retrying" && failures > 0 ? planned : undefined;
}
