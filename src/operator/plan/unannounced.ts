import type { SlotState } from "../../api/states.ts";
import type { Decision } from "./decision.ts";
import { wasState } from "./facts.ts";
import type { SlotInput } from "./input.ts";

/** The states from which a process is started: `starting` always follows them. */
const beforeStart: ReadonlySet<SlotState> = new Set(["unloading", "pulling"]);

/**
 * An engine may be further than the published state allows: a Pod that has pulled its image itself, or an engine whose
 * operator was killed before it could publish `starting`. Then `starting` is published first, and the next reconcile acts.
 */
export function unannounced(input: SlotInput, decision: Decision): Decision {
  const isAhead = decision.state === "warming" || decision.state === "ready";
  if (!isAhead || decision.failure !== undefined || !beforeStart.has(wasState(input))) return decision;
  const message = "its process has started";
  const steps = [{ do: "wait", reason: message }] as const;
  return { state: "starting", conditionSet: "progressing", reason: "Starting", message, steps, requeueMs: 0 };
}
