/** A person has unloaded the slot: an always-loaded one stays so, an on-demand one until the next request. */
const unloadedReasons = ["Unloaded", "UnloadedUntilRequest"] as const;

/** Whether that reason of a condition or a transition is that a person has unloaded the slot. */
export function isUnloadedByHand(reason: string): boolean {
  return unloadedReasons.some((each) => each === reason);
}
