import type { SlotRequest } from "../api/status.ts";
import type { Observed, Workload } from "../api/workload.ts";
import type { EngineRefusal } from "../engines/engine.ts";
import { isRefusal } from "../engines/engine.ts";
import type { Preparation } from "../runtimes/runtime.ts";
import { isMainServing, wasState } from "./facts.ts";
import type { SlotInput } from "./input.ts";
import type { Verdict } from "./verdict.ts";
import type { World } from "./world.ts";

export type Missing = Exclude<Preparation, { state: "ready" }>;

/**
 * Asks the runtime for what the next engine needs and is not here yet; undefined when all is. What runs already is not
 * asked for. Digests that the first pull found are remembered: `hasLearned` says that workloads must be made anew.
 */
export async function prepare(
  world: World,
  workloads: readonly Workload[] | EngineRefusal,
  observed: readonly Observed[],
  attempt: string,
): Promise<{ readonly missing?: Missing; readonly hasLearned: boolean }> {
  let hasLearned = false;
  let missing: Missing | undefined;
  for (const workload of isRefusal(workloads) ? [] : workloads) {
    const { role, hash, container } = workload;
    const isRunning = observed.some((seen) => seen.role === role && seen.hash === hash && seen.phase === "running");
    if (container === undefined || isRunning) continue;
    const preparation = await world.runtime.prepare?.(workload, attempt);
    if (preparation === undefined) continue;
    if (preparation.state !== "ready") missing ??= preparation;
    else if (preparation.digest !== undefined && !container.image.includes("@")) {
      await world.containers.remember(container.image, preparation.digest);
      hasLearned = true;
    }
  }
  return { hasLearned, ...(missing === undefined ? {} : { missing }) };
}

/** Why something is wanted: another edit or request tries again what only a person could mend. */
export function attemptOf(specHash: string, requests: readonly SlotRequest[]): string {
  const asked = requests.filter(({ kind }) => kind === "restart" || kind === "load").map(({ token }) => token);
  return [specHash, ...asked].join(" ");
}

/** The next engine's image comes first: what serves goes on serving until it is here. */
export function unprepared(input: SlotInput): Verdict | undefined {
  const { missing } = input;
  if (missing === undefined) return undefined;
  const isServing = isMainServing(input);
  // What is coming up, has ended or is being let go of is for the checks that follow.
  if (!isServing && (input.observed.length > 0 || isComing(input))) return undefined;
  if (missing.state === "fetching") {
    return {
      state: isServing ? "ready" : "pulling",
      row: isServing ? "loadedProgressing" : "progressing",
      reason: "Pulling",
      message: missing.message,
      steps: [{ do: "wait", reason: missing.message }],
      requeueMs: 5000,
    };
  }
  const { reason, message, isTerminal } = missing;
  const rows = isServing ? (["loadedStalled", "loadedRetrying"] as const) : (["stalled", "retrying"] as const);
  return {
    state: isServing ? "ready" : "error",
    row: rows[isTerminal ? 0 : 1],
    reason,
    message,
    steps: isTerminal ? [] : [{ do: "wait", reason: message }],
    ...(isTerminal ? {} : { requeueMs: 5000 }),
  };
}

function isComing(input: SlotInput): boolean {
  return ["starting", "warming", "ready"].includes(wasState(input));
}
