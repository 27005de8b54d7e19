import type { BufferBudget } from "../admission/budget.ts";
import type { Charge } from "../admission/charge.ts";

/** How much an upload may take, and what counts it. */
export interface UploadLimits {
  /** Of the whole body; beyond it 413. */
  readonly bodyLimitBytes: number;
  /** What an upload keeps in memory is counted there; its owner ends it. */
  readonly charge: Charge;
  /** What waits on disk is counted there. */
  readonly spooled: BufferBudget;
  /** Where an upload waits that its engine has not taken yet. */
  readonly spoolDir: string;
  /** How long its sender may be silent, wherever the upload waits; half a minute unless told otherwise. */
  readonly silenceMs?: number;
}
