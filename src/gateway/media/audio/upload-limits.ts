import type { BufferBudget } from "../../slots/budget.ts";
import type { Charge } from "../../slots/budget.ts";

/** The limits of an upload, with their counters. */
export interface UploadLimits {
  /** The limit of the whole body; beyond it 413. */
  readonly bodyLimitBytes: number;
  /** An upload's memory is counted here; its owner ends it. */
  readonly charge: Charge;
  /** Bytes on disk are counted here. */
  readonly spooled: BufferBudget;
  /** The directory for the unread part of uploads. */
  readonly spoolDir: string;
  /** How long its sender may send nothing, at any stage of the upload; half a minute by default. */
  readonly idleTimeoutMs?: number;
}
