import type { ConditionClaim } from "../../api/conditions.ts";
import { processIn } from "../../api/plan.ts";
import { processName, type ProcessRef } from "../../api/process-ref.ts";
import { canMove, type SlotState } from "../../api/states.ts";
import { healthOf, type SlotInput } from "./input.ts";
import { running, wasState } from "./facts.ts";
import type { Standing, Verdict } from "./verdict.ts";

/** States that the operator publishes; `serving` and `idle` are the gateway's overlay. */
export type OperatorState = Exclude<SlotState, "serving" | "idle">;

/** The verdict about a slot, with its state: published, and carried out without another decision. */
export interface Decision extends Verdict {
  readonly state: OperatorState;
  /** Gateways may send to a process of it, whatever is in the way of another one or of the next. */
  readonly isServed: boolean;
  /** The check that decided. */
  readonly check: string;
  /** The verdicts about each process; absent: the slot was judged as a whole. */
  readonly parts?: readonly ProcessVerdict[];
}

export interface ProcessVerdict extends ProcessRef {
  readonly verdict: Verdict;
}

/**
 * Whether gateways may send to a main process, once the steps are taken. Where its runtime does not answer, only its last
 * probe shows that it lives.
 */
export function isServed(slot: SlotInput, steps: Verdict["steps"] = []): boolean {
  if (wasState(slot) === "unloading") return false;
  const ending = new Set(
    steps.flatMap((step) => (step.do === "stop" || step.do === "drain" ? (processIn(step) ?? []) : [])),
  );
  return running(slot).some((process) => {
    if (process.role !== "main" || ending.has(processName(process))) return false;
    const health = healthOf(slot, process);
    return health?.isWarm === true && (slot.runtimeError === undefined || health.isHealthy);
  });
}

/** The slot's state is the furthest of these, unless it is being unloaded. */
const order: readonly OperatorState[] = ["unloading", "ready", "warming", "starting", "pulling", "error", "offline"];

/** The state that a verdict amounts to. */
export function stateOf({ severity, phase = "starting" }: Standing, served: boolean): OperatorState {
  switch (severity) {
    case "leaving":
      return "unloading";
    case "off":
    case "waiting":
      return "offline";
    case "loaded":
      return "ready";
    case "progressing":
      return served ? "ready" : phase;
    case "retrying":
    case "stalled":
      return served ? "ready" : "error";
    default:
      return severity satisfies never;
  }
}

/**
 * The furthest of these states that may follow the published one: a forbidden transition goes through a state that is
 * less far, as where the last process that answered has ended.
 */
export function furthest(slot: SlotInput, states: readonly OperatorState[]): OperatorState | undefined {
  const found = order.filter((state) => states.includes(state));
  return found.find((state) => canMove(wasState(slot), state)) ?? found[0];
}

/** The conditions of a decision. A reason in `Stalled` always names what a person must mend. */
export function claimsOf({
  severity,
  isServed: served,
  state,
  reason,
  message,
}: Pick<Decision, "severity" | "isServed" | "state" | "reason" | "message">): ConditionClaim[] {
  const claim = (type: ConditionClaim["type"], status: ConditionClaim["status"], why = reason): ConditionClaim => ({
    type,
    status,
    reason: why,
    message,
  });
  // The next workload, or its failure, does not change what is said about the serving one.
  const available = (why = reason): ConditionClaim =>
    served
      ? { type: "Available", status: "True", reason: "Loaded", message: "the loaded engine serves requests" }
      : claim("Available", "False", why);
  const now = `${state.charAt(0).toUpperCase()}${state.slice(1)}`;
  switch (severity) {
    case "off":
      return [claim("Ready", "True"), claim("Available", "False")];
    case "waiting":
      return [claim("Ready", "Unknown"), claim("Available", "False"), claim("Reconciling", "True")];
    case "loaded":
      return [claim("Ready", "True", "Loaded"), claim("Available", "True", "Loaded")];
    case "progressing":
    case "leaving":
      return [
        claim("Ready", "Unknown", "Progressing"),
        available(now),
        claim("Reconciling", "True", served ? reason : now),
      ];
    case "retrying":
      return [claim("Ready", "False"), available(), claim("Reconciling", "True", "ProgressingWithRetry")];
    case "stalled":
      return [claim("Ready", "False"), available(), claim("Stalled", "True")];
    default:
      return severity satisfies never;
  }
}
