import type { SlotState } from "../../api/states.ts";
import type { Decision } from "./decision.ts";
import { wasState } from "./facts.ts";
import type { SlotInput } from "./input.ts";

/** What a process is started from, and never jumps over `starting`. */
const beforeStart: ReadonlySet<SlotState> = new Set(["unloading", "pulling"]);

/**
 * An operator that was killed after a start, before it could publish `starting`, leaves an engine that may be further
 * by now. Its successor publishes `starting` first, and acts with the next reconcile.
 */
export function unannounced(input: SlotInput, decision: Decision): Decision {
  const isAhead = decision.state === "warming" || decision.state === "ready";
  if (!isAhead || decision.failure !== undefined || !beforeStart.has(wasState(input))) return decision;
  const message = "its process was started by an operator that ended before it could say so";
  const steps = [{ do: "wait", reason: message }] as const;
  return { state: "starting", row: "progressing", reason: "Starting", message, steps, requeueMs: 0 };
}
