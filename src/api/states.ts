/** The nine lifecycle states of a slot (service specification, "States and transitions"). */
export const slotStates = [
  "offline",
  "pulling",
  "starting",
  "warming",
  "ready",
  "serving",
  "idle",
  "unloading",
  "error",
] as const;
export type SlotState = (typeof slotStates)[number];

/**
 * Which state may follow which. Any other move is a bug of the operator's: the status linter of the tests reports it, also
 * in every course of events that the property tests draw.
 *
 * An operator that starts and finds a running engine adopts it: `offline → ready` is that move, and
 * `offline → starting|warming` are the same for a model that needs no fetching or an engine still loading.
 */
export const transitions = {
  offline: ["pulling", "starting", "warming", "ready", "unloading", "error"],
  pulling: ["starting", "offline", "error", "unloading"],
  starting: ["warming", "ready", "error", "unloading", "offline"],
  warming: ["ready", "error", "unloading", "starting"],
  ready: ["serving", "idle", "unloading", "error", "warming"],
  serving: ["idle", "ready", "unloading", "error", "warming"],
  idle: ["serving", "ready", "unloading", "error", "warming"],
  unloading: ["offline", "starting", "pulling", "error"],
  error: ["pulling", "starting", "offline", "unloading", "warming", "ready"],
} as const satisfies Record<SlotState, readonly SlotState[]>;

/** Whether a slot may go from one state to the other; staying is always allowed. */
export function canMove(from: SlotState, to: SlotState): boolean {
  const next: readonly SlotState[] = transitions[from];
  return from === to || next.includes(to);
}

/** States in which the endpoint answers requests. */
export function isAvailable(state: SlotState): boolean {
  return state === "ready" || state === "serving" || state === "idle";
}
