/**
 * Why a slot must leave: it is idle and another one waits; another one has waited too long; the loaded slots are over
 * the budget; the group is lent.
 */
export const leavingCauses = ["idle", "waited", "budget", "lent"] as const;
export type LeavingCause = (typeof leavingCauses)[number];

/** The answer that a slot's plan reads. */
export type Grant =
  | { readonly state: "granted" }
  /** Nothing was decided about the slot yet; `message`: what that waits for. */
  | { readonly state: "pending"; readonly message: string }
  | {
      readonly state: "waiting";
      /** The slots with a place. */
      readonly holders: readonly string[];
      /** Slots that are never preempted leave it no place: only an edit helps. */
      readonly isHopeless: boolean;
      readonly message: string;
    }
  /** The group is lent until that time: no slot of it is loaded. */
  | { readonly state: "lent"; readonly until: string }
  | {
      readonly state: "leaving";
      readonly cause: LeavingCause;
      /** The slot that waits longest; undefined: none. */
      readonly for: string | undefined;
      /** The amount that the loaded slots hold, and the budget; absent: they are not over it. */
      readonly over?: string;
      /** The cost of coming back; absent: that of a load alone. */
      readonly cost?: string;
    };
