import type { V1Model } from "../../src/api/management/v1-model.ts";
import { slotStates } from "../../src/api/states.ts";
import { stateWords, type StateWords } from "../../src/api/state-words.ts";

/**
 * How the slot of a model is; undefined where the model is a provider's, or its state is not known. For lists of models that
 * answer (`available=1`): an offline slot among them loads with a request. The requests of others come and go, and the slot
 * takes another one: it is ready.
 */
export function wordsOf({ berth }: Pick<V1Model, "berth">): StateWords | undefined {
  const found = slotStates.find((each) => each === berth.state);
  if (found === undefined) return undefined;
  const state = found === "serving" ? "ready" : found;
  const conditions = state === "offline" ? [{ type: "Ready", reason: "ScaledToZero" }] : [];
  return stateWords({ state, in_flight: 0, progress: null, conditions });
}
