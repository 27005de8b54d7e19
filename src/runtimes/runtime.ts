import type { ProcessRole, RuntimeKind } from "../api/names.ts";
import type { Observed, Workload } from "../api/workload.ts";

export interface RemoveOptions {
  /** Between TERM and KILL of the whole group or container. */
  readonly stopSeconds: number;
  /** Aborting goes to KILL at once. */
  readonly signal?: AbortSignal;
}

export interface FetchProgress {
  readonly bytesDone: number;
  readonly bytesTotal?: number;
  readonly bytesPerSecond?: number;
}

/** Whether all that a workload needs is on this machine. */
export type Preparation =
  /** `digest`: what an image that was named without one turned out to be. */
  | { readonly state: "ready"; readonly digest?: string }
  | { readonly state: "fetching"; readonly message: string; readonly progress: FetchProgress }
  | {
      readonly state: "failed";
      readonly reason: string;
      readonly message: string;
      /** Not terminal: it is tried again by itself. */
      readonly isTerminal: boolean;
      /** When, where that is known. */
      readonly retryAt?: Date;
    };

/**
 * Turns workloads into running things. Everything is idempotent; nothing without our label is ever touched;
 * not found is success. `test/runtimes/conformance.ts` is the definition, and every runtime passes it.
 */
export interface Runtime extends AsyncDisposable {
  readonly kind: RuntimeKind;
  /** False while looking would throw RuntimeUnavailable; absent: never. */
  isAnswering?(): boolean;
  /** Somebody waits for the operator's end: silence is waited for no longer than `ms`; absent: it never is. */
  hurry?(ms: number): void;
  /** Calls `onChange` whenever `isAnswering` says something else; absent: never. */
  watchAnswering?(onChange: () => void): Disposable;
  /**
   * What runs, or has exited and not been removed, under our label for that slot. Throws RuntimeUnavailable when that
   * cannot be known now. `concerned` is for a set of runtimes: those whose silence matters to the slot.
   */
  observe(slot: string, concerned?: readonly RuntimeKind[]): Promise<readonly Observed[]>;
  /** Slots that have anything under our label, so that orphans are found. */
  list(): Promise<readonly string[]>;
  /**
   * Begins or goes on fetching what the workload needs, and tells how far it is; absent: nothing is ever fetched.
   * Watchers hear of progress and of the end. `attempt` names why: another one tries again what had failed for good.
   */
  prepare?(workload: Workload, attempt: string): Promise<Preparation>;
  /**
   * Runs the workload unless the same hash runs already in that role. Resolves once it is started, not once it
   * is healthy. Throws when a different hash still runs: the caller removes first.
   */
  ensure(workload: Workload): Promise<void>;
  /**
   * Ends what runs in that role, or in every role of the slot, and forgets it. Resolves once it is verified gone.
   */
  remove(slot: string, role: ProcessRole | undefined, options: RemoveOptions): Promise<void>;
  /** Calls `onSlot` soon after anything of that slot started, ended or changed. Events are hints and may repeat. */
  watch(onSlot: (slot: string) => void): Promise<Disposable>;
}
