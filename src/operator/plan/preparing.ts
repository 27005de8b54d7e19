import { isServed } from "./decision.ts";
import { wasState } from "./facts.ts";
import type { SlotInput } from "./input.ts";
import type { Verdict } from "./verdict.ts";

/** The reason for a fetch: another edit or request retries a failure that only a person could mend. */
export function attemptOf({ specHash, requests }: Pick<SlotInput, "specHash" | "requests">): string {
  const reasons = requests.filter(({ kind }) => kind === "restart" || kind === "load").map(({ token }) => token);
  return [specHash, ...reasons].join(" ");
}

/** The reason of a model that is not on this machine and can be fetched. */
export const notFetched = "NotFetched";
/** The reason of a model that nobody knows. */
export const notFound = "ModelNotFound";

/** The next engine's preparation comes first: the running engine serves until it is done. */
export function notPrepared(input: SlotInput): Verdict | undefined {
  const { unprepared: missing } = input;
  if (missing === undefined) return undefined;
  // Loading, ended and unloading processes are left to the following checks.
  if ((input.observed.length > 0 || isComing(input)) && !isServed(input)) return undefined;
  if (missing.state !== "failed") {
    const { role, message } = missing;
    const step = missing.state === "absent" ? ({ do: "fetch", role, reason: message } as const) : undefined;
    return {
      severity: "progressing",
      phase: "pulling",
      reason: "Pulling",
      message,
      steps: [step ?? { do: "wait", reason: message }],
      requeueMs: step === undefined ? 5000 : 20,
    };
  }
  const { reason, message, isTerminal } = missing;
  return {
    severity: isTerminal ? "stalled" : "retrying",
    reason,
    message,
    steps: isTerminal ? [] : [{ do: "wait", reason: message }],
    ...(isTerminal ? {} : { requeueMs: 5000 }),
  };
}

function isComing(input: SlotInput): boolean {
  return ["starting", "warming", "ready"].includes(wasState(input));
}
