import type { Step } from "../../api/plan.ts";

export interface Failure {
  readonly reason: string;
  readonly message: string;
  /** A person must act; nothing is retried automatically. */
  readonly isTerminal: boolean;
  /** The process had been ready for long: one crash is not an outage, and the process starts again at once (DECISIONS 9). */
  readonly isSteady: boolean;
}

/**
 * How the slot, or one process of it, stands. State and conditions follow from it, and from whether another process
 * serves meanwhile (`decision.ts`).
 */
export type Severity =
  /** Not wanted, and nothing of it runs. */
  | "off"
  /** Should run, and may not be started yet. */
  | "waiting"
  | "progressing"
  | "loaded"
  /** The loaded engines leave. */
  | "leaving"
  /** Failed, or hindered by something that may end by itself. */
  | "retrying"
  /** A person must act. */
  | "stalled";

/** The result of one check: carried out without another decision. */
export interface Verdict {
  readonly severity: Severity;
  /** How far a process is that comes up; only with `progressing`, where an absent one means `starting`. */
  readonly phase?: "pulling" | "starting" | "warming";
  readonly reason: string;
  readonly message: string;
  readonly steps: readonly Step[];
  /** A new failure, to be counted once. */
  readonly failure?: Failure;
  /** Reconcile again after this time, without an event too. */
  readonly requeueMs?: number;
  /** The slot is gone: its status must be removed. */
  readonly isDeleted?: true;
}

/** The part that state and conditions follow from. */
export type Standing = Pick<Verdict, "severity" | "phase">;

/** Whether something is in the way of what is wanted. */
export function isHindered({ severity }: Pick<Verdict, "severity">): boolean {
  return severity === "retrying" || severity === "stalled";
}
