import type { ConditionClaim } from "../api/conditions.ts";
import type { Step } from "../api/plan.ts";
import type { SlotState } from "../api/states.ts";

/** States that the operator publishes; `serving` and `idle` are the gateway's overlay. */
export type OperatorState = Exclude<SlotState, "serving" | "idle">;

/** The lines of the table in docs/slots.md: which conditions go together. */
export type Row =
  | "offline"
  /** Should be loaded, but this operator may not act. */
  | "paused"
  | "progressing"
  | "loaded"
  | "unloading"
  | "retrying"
  | "stalled"
  /** Loaded and serving, while what should come next is awaited or retried. */
  | "loadedProgressing"
  | "loadedRetrying"
  | "loadedStalled";

export interface Failure {
  readonly reason: string;
  readonly message: string;
  /** A person must act; nothing is retried by itself. */
  readonly isTerminal: boolean;
  /** It had been ready for long: one crash is not an outage, and it starts again at once (DECISIONS 9). */
  readonly isSteady: boolean;
}

/** What was decided about a slot: published, and acted on without another decision. */
export interface Verdict {
  readonly state: OperatorState;
  readonly row: Row;
  readonly reason: string;
  readonly message: string;
  readonly steps: readonly Step[];
  /** A failure seen now, to be counted once. */
  readonly failure?: Failure;
  /** Look again after this long even if nothing happens. */
  readonly requeueMs?: number;
  /** The slot is gone: its status is to be removed. */
  readonly isDeleted?: true;
}

/** The conditions of a verdict. A reason in `Stalled` always names what a person must mend. */
export function claimsOf({
  row,
  reason,
  message,
  state,
}: Pick<Verdict, "row" | "reason" | "message" | "state">): ConditionClaim[] {
  const claim = (type: ConditionClaim["type"], status: ConditionClaim["status"], why = reason): ConditionClaim => ({
    type,
    status,
    reason: why,
    message,
  });
  // What comes next, or fails to, is no news of what serves.
  const serving: ConditionClaim = {
    type: "Available",
    status: "True",
    reason: "Loaded",
    message: "what is loaded serves requests",
  };
  const progress = `${state.charAt(0).toUpperCase()}${state.slice(1)}`;
  switch (row) {
    case "offline":
      return [claim("Ready", "True"), claim("Available", "False")];
    case "paused":
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
      return row satisfies never;
  }
}
