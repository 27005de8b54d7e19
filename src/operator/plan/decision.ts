import type { ConditionClaim } from "../../api/conditions.ts";
import type { ProcessRef } from "../../api/process-ref.ts";
import type { Step } from "../../api/plan.ts";
import type { SlotState } from "../../api/states.ts";

/** States that the operator publishes; `serving` and `idle` are the gateway's overlay. */
export type OperatorState = Exclude<SlotState, "serving" | "idle">;

/** The lines of the table in docs/slots.md: which conditions go together. */
export type ConditionSet =
  | "offline"
  /** Should be loaded, but this operator may not act. */
  | "paused"
  /** Would be started once its group has a place for it. */
  | "waiting"
  | "progressing"
  | "loaded"
  | "unloading"
  | "retrying"
  | "stalled"
  /** Loaded and serving, while its next workload is awaited or retried. */
  | "loadedProgressing"
  | "loadedRetrying"
  | "loadedStalled";

export interface Failure {
  readonly reason: string;
  readonly message: string;
  /** A person must act; nothing is retried automatically. */
  readonly isTerminal: boolean;
  /** The process had been ready for long: one crash is not an outage, and the process starts again at once (DECISIONS 9). */
  readonly isSteady: boolean;
}

/** The decision about a slot: published, and carried out without another decision. */
export interface Decision {
  readonly state: OperatorState;
  readonly conditionSet: ConditionSet;
  readonly reason: string;
  readonly message: string;
  readonly steps: readonly Step[];
  /** A new failure, to be counted once. */
  readonly failure?: Failure;
  /** Reconcile again after this time, without an event too. */
  readonly requeueMs?: number;
  /** The slot is gone: its status must be removed. */
  readonly isDeleted?: true;
  /** The decisions about each process of a slot that has several; absent: the slot was judged as one. */
  readonly parts?: readonly ProcessDecision[];
}

export interface ProcessDecision extends ProcessRef {
  readonly decision: Decision;
}

/** The conditions of a decision. A reason in `Stalled` always names what a person must mend. */
export function claimsOf({
  conditionSet,
  reason,
  message,
  state,
}: Pick<Decision, "conditionSet" | "reason" | "message" | "state">): ConditionClaim[] {
  const claim = (type: ConditionClaim["type"], status: ConditionClaim["status"], why = reason): ConditionClaim => ({
    type,
    status,
    reason: why,
    message,
  });
  // The next workload, or its failure, does not change what is said about the serving one.
  const serving: ConditionClaim = {
    type: "Available",
    status: "True",
    reason: "Loaded",
    message: "the loaded engine serves requests",
  };
  const progress = `${state.charAt(0).toUpperCase()}${state.slice(1)}`;
  switch (conditionSet) {
    case "offline":
      return [claim("Ready", "True"), claim("Available", "False")];
    case "paused":
    case "waiting":
      return [claim("Ready", "Unknown"), claim("Available", "False"), claim("Reconciling", "True")];
    case "progressing":
      return [
        claim("Ready", "Unknown", "Progressing"),
        claim("Available", "False", progress),
        claim("Reconciling", "True", progress),
      ];
    case "loaded":
      return [claim("Ready", "True", "Loaded"), claim("Available", "True", "Loaded")];
    case "unloading":
      return [
        claim("Ready", "Unknown", "Progressing"),
        claim("Available", "False", "Unloading"),
        claim("Reconciling", "True", "Unloading"),
      ];
    case "retrying":
      return [
        claim("Ready", "False"),
        claim("Available", "False"),
        claim("Reconciling", "True", "ProgressingWithRetry"),
      ];
    case "stalled":
      return [claim("Ready", "False"), claim("Available", "False"), claim("Stalled", "True")];
    case "loadedProgressing":
      return [claim("Ready", "Unknown", "Progressing"), serving, claim("Reconciling", "True")];
    case "loadedRetrying":
      return [claim("Ready", "False"), serving, claim("Reconciling", "True", "ProgressingWithRetry")];
    case "loadedStalled":
      return [claim("Ready", "False"), serving, claim("Stalled", "True")];
    default:
      return conditionSet satisfies never;
  }
}
