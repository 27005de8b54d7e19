import type { Amounts } from "./amounts.ts";

/** The limits that a group sets its slots. */
export interface GroupRules {
  readonly group: string;
  /** The amounts that the loaded slots may need together. A resource that is not named is not limited. */
  readonly capacity: Amounts;
  /** After this time a waiting slot takes precedence over new requests of a busy slot. */
  readonly maxWaitMs: number;
  /** A slot that became ready stays at least this long. */
  readonly minResidencyMs: number;
  /** The group is lent until that time: every slot leaves as soon as it is ready, and none is loaded. */
  readonly lentUntil?: string;
}
