import type { V1Model } from "../../src/api/management/v1-model.ts";
import { slotStates } from "../../src/api/states.ts";
import { stateWords } from "../../src/api/state-words.ts";

/** How the slot of a model is, after a dot; empty where the model is a provider's, or its state is not known. */
export function modelStateText({ berth }: V1Model): string {
  const state = slotStates.find((each) => each === berth.state);
  if (state === undefined) return "";
  // Without its conditions an offline slot is one that loads on demand, or one that a person keeps unloaded.
  const { text } = stateWords({ state, in_flight: 0, progress: null, conditions: [] });
  return state === "serving" ? " · Answering" : ` · ${text}`;
}
