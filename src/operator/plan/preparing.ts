import { isMainServing, wasState } from "./facts.ts";
import type { SlotInput } from "./input.ts";
import type { Decision } from "./decision.ts";

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
export function notPrepared(input: SlotInput): Decision | undefined {
  const { unprepared: missing } = input;
  if (missing === undefined) return undefined;
  const isServing = isMainServing(input);
  // Loading, ended and unloading processes are left to the following checks.
  if (!isServing && (input.observed.length > 0 || isComing(input))) return undefined;
  if (missing.state !== "failed") {
    const { role, message } = missing;
    const step = missing.state === "absent" ? ({ do: "fetch", role, reason: message } as const) : undefined;
    return {
      state: isServing ? "ready" : "pulling",
      conditionSet: isServing ? "loadedProgressing" : "progressing",
      reason: "Pulling",
      message,
      steps: [step ?? { do: "wait", reason: message }],
      requeueMs: step === undefined ? 5000 : 20,
    };
  }
  const { reason, message, isTerminal } = missing;
  const conditionSets = isServing ? (["loadedStalled", "loadedRetrying"] as const) : (["stalled", "retrying"] as const);
  return {
    state: isServing ? "ready" : "error",
    conditionSet: conditionSets[isTerminal ? 0 : 1],
    reason,
    message,
    steps: isTerminal ? [] : [{ do: "wait", reason: message }],
    ...(isTerminal ? {} : { requeueMs: 5000 }),
  };
}

function isComing(input: SlotInput): boolean {
  return ["starting", "warming", "ready"].includes(wasState(input));
}
