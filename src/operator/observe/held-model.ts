import { nearest } from "../../api/nearest.ts";
import type { SlotSpec } from "../../api/slot.ts";
import type { SlotRequest } from "../../api/status.ts";
import type { SlotInput } from "../plan/input.ts";
import type { ModelChoice } from "../plan/choose-model.ts";

/** The manifest's model, or that of a swap, which holds until the manifest names another than at its time. */
export function declaredModel(spec: SlotSpec | undefined, requests: readonly SlotRequest[]): SlotInput["held"] {
  const swap = requests.find(({ kind }) => kind === "swap-model");
  const declared = spec?.model.default;
  return swap?.model !== undefined && swap.specModel === declared
    ? { ref: swap.model, origin: "swap" }
    : { ref: declared, origin: "spec" };
}

/** The model to hold: the chosen one where requests choose. */
export function chosenModel(choice: ModelChoice | undefined, declared: SlotInput["held"]): SlotInput["held"] {
  return choice === undefined || choice.chosen === declared.ref ? declared : { ref: choice.chosen, origin: "request" };
}

/** The models of `model.onRequest` that nobody knows. An engine of one's own may have models that nobody else knows. */
export function unknownRefs(
  spec: SlotSpec | undefined,
  models: ReadonlyMap<string, unknown>,
): NonNullable<SlotInput["unknownRefs"]> {
  if (spec === undefined || spec.engine === "custom") return [];
  return spec.model.onRequest.flatMap((ref, index) =>
    models.has(ref) ? [] : [{ ref, at: index, nearest: nearest(ref, models.keys()) }],
  );
}
