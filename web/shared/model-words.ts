import type { V1Model } from "../../src/api/management/v1-model.ts";
import { slotStates } from "../../src/api/states.ts";
import { stateWords } from "../../src/api/state-words.ts";

/**
 * How the slot of a model is, after a dot; empty where the model is a provider's, or its state is not known. For lists of
 * models that answer (`available=1`): an offline slot among them loads with a request.
 */
export function modelStateText({ berth }: Pick<V1Model, "berth">): string {
  const state = slotStates.find((each) => each === berth.state);
  if (state === undefined) return "";
  if (state === "serving") return " · Answering";
  if (state === "offline") return " · On demand";
  return ` · ${stateWords({ state, in_flight: 0, progress: null, conditions: [] }).text}`;
}
