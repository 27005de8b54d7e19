import { didYouMean } from "../../api/nearest.ts";
import type { FailedRef } from "../../api/on-request.ts";
import type { SlotStatus } from "../../api/status.ts";
import { backoffMs, type Backoff } from "../plan/backoff.ts";
import type { Decision } from "../plan/decision.ts";
import { isHindered } from "../plan/verdict.ts";
import { at, type SlotInput } from "../plan/input.ts";

/** Before a model is tried again that another one replaced. */
const leastRetryMs = 5000;

/** The published choice of a slot whose model requests choose, with the models that could not be loaded. */
export function onRequestStatus(input: SlotInput, decision: Decision, backoff: Backoff): Pick<SlotStatus, "onRequest"> {
  if (input.onRequest === undefined) return {};
  const { usual, refs, chosen, since, failed } = input.onRequest;
  const others = failed.filter(({ ref }) => ref !== chosen);
  const own = failureOfChosen(input, decision, backoff);
  return { onRequest: { usual, refs, chosen, since, failed: own === undefined ? [...others] : [...others, own] } };
}

function failureOfChosen(
  { onRequest, held, before, now }: SlotInput,
  { severity, isServed, reason, message, failure }: Decision,
  backoff: Backoff,
): FailedRef | undefined {
  const known = onRequest?.failed.find(({ ref }) => ref === held.ref);
  const isServedByIt = before?.status.model.ref === held.ref && before?.status.processes.length !== 0;
  const isNews = isHindered({ severity }) && !(isServed && isServedByIt);
  if (severity === "loaded" || held.ref === undefined) return undefined;
  if (!isNews) return known;
  // One failure is published several times.
  if (failure === undefined && known?.reason === reason && at(known.retryAt) > now.getTime()) return known;
  const failures = (known?.failures ?? 0) + 1;
  const isStalled = severity === "stalled";
  const waitMs = isStalled ? backoff.limitMs : Math.max(leastRetryMs, backoffMs(failures, backoff));
  return {
    ref: held.ref,
    reason,
    message: message.slice(0, 2000),
    failures,
    at: now.toISOString(),
    retryAt: new Date(now.getTime() + waitMs).toISOString(),
    isStalled,
  };
}

/** The models of the list that nobody knows, with their place and what to do. */
export function unknownRefsMessage(file: string | undefined, unknown: NonNullable<SlotInput["unknownRefs"]>): string {
  const isYaml = /\.ya?ml$/.test(file ?? "");
  const names = unknown.map(({ ref, at: index, nearest: close }) => {
    const place = isYaml ? `model.onRequest[${index}]` : `model.on_request[${index}]`;
    return `${place} names ${ref}${didYouMean(close)}`;
  });
  const what = "no Model declares it, and no file of the models directory provides it";
  return `${file === undefined ? "" : `${file}: `}${names.join(", ")}: ${what}; declare it, or pull it with berth model pull`;
}
