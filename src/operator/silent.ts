import type { SlotInput } from "./input.ts";
import type { Verdict } from "./verdict.ts";
import { wanted } from "./wanted.ts";

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
    reason: "RuntimeUnavailable",
    message: input.silence,
    steps: [{ do: "wait", reason: "the container engine must answer first" }],
    requeueMs: 1000,
  };
}
