import type { SlotState } from "./states.ts";

/** The fields of a slot from which its words follow, as the API shows them. */
export interface DescribedSlot {
  readonly state: SlotState;
  readonly in_flight: number;
  readonly progress: { readonly bytes_done: number; readonly bytes_total: number | null } | null;
  readonly conditions: readonly { readonly type: string; readonly reason: string }[];
}

/** `off`: nothing is loaded, and nothing is wrong. */
export type Tone = "good" | "info" | "busy" | "bad" | "lent" | "off";

export interface StateWords {
  readonly text: string;
  readonly tone: Tone;
  /** A few more words for a place with room, e.g. `idle`. */
  readonly aside?: string;
}

/** A slot's state for a person who has not read the list of the nine states: the same words on the pages and in the terminal. */
export function stateWords(slot: DescribedSlot): StateWords {
  const { state, in_flight: inFlight, progress } = slot;
  // After an invalid edit Ready tells of that alone.
  const reasonOf = (wanted: string): string | undefined => slot.conditions.find(({ type }) => type === wanted)?.reason;
  switch (state) {
    case "serving":
      // A slot is serving for two more seconds after its last request.
      if (inFlight === 0) return { text: "Ready", tone: "good", aside: "answered just now" };
      return { text: `Answering ${inFlight}`, tone: "info" };
    case "ready":
      return { text: "Ready", tone: "good" };
    case "idle":
      return { text: "Ready", tone: "good", aside: "idle" };
    case "pulling":
      return { text: `Pulling${share(progress)}`, tone: "busy" };
    case "starting":
    case "warming":
      return { text: `Loading${share(progress)}`, tone: "busy" };
    case "unloading":
      return { text: "Unloading", tone: "busy" };
    case "error":
      return { text: "Failed", tone: "bad" };
    case "offline":
      return offlineWords(reasonOf("Available") ?? reasonOf("Ready") ?? "");
    default:
      // A newer server may know other states.
      return { text: state satisfies never, tone: "off" };
  }
}

function offlineWords(reason: string): StateWords {
  switch (reason) {
    case "ScaledToZero":
      return { text: "On demand", tone: "off", aside: "loads with the first request" };
    case "UnloadedUntilRequest":
      return { text: "Unloaded by hand", tone: "off", aside: "loads with the next request" };
    case "Unloaded":
      return { text: "Unloaded by hand", tone: "off", aside: "loads once somebody loads it" };
    case "NotConfigured":
      return { text: "Not set up", tone: "off" };
    case "Disabled":
      return { text: "Disabled", tone: "off", aside: "by its manifest" };
    case "Lent":
      return { text: "Lent", tone: "lent", aside: "its group's memory is lent" };
    case "GroupFull":
    case "GroupPending":
    case "MemoryHeld":
      return { text: "Waiting for memory", tone: "busy" };
    default:
      return { text: "Offline", tone: "off" };
  }
}

function share(progress: DescribedSlot["progress"]): string {
  const total = progress?.bytes_total ?? 0;
  return progress === null || total <= 0 ? "" : ` ${Math.floor((100 * progress.bytes_done) / total)} %`;
}
