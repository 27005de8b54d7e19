import { verdictRank } from "../../src/api/catalog-words.ts";
import type { AnswerTo } from "../../src/api/management/call.ts";
import type { CatalogView, SlotView } from "../../src/api/management/views.ts";
import { isAvailable } from "../../src/api/states.ts";
import { kindOf } from "./model-kinds.ts";

export type InstallState = AnswerTo<"GET /api/install/state">;

/** The next step of a new installation: a model, a slot that holds it, its files, its load, or a first question. */
export type Step = "choose" | "hold" | "pull" | "load" | "talk";

interface Known {
  readonly install: InstallState;
  readonly slots: readonly Pick<SlotView, "state" | "model">[];
  readonly pulls: readonly { readonly state: string }[];
}

/** The next step of a new installation. */
export function stepOf({ install, slots, pulls }: Known): Step {
  if (slots.some((slot) => isAvailable(slot.state) && slot.model !== null)) return "talk";
  if (install.has_models && install.has_ready_slot) return "talk";
  if (pulls.some(({ state }) => !["completed", "cancelled"].includes(state))) return "pull";
  const isHeld = slots.some(({ model }) => model !== null);
  if (isHeld) return "load";
  return install.has_models ? "hold" : "choose";
}

const choices = 3;
/** A larger model answers slowly on a processor alone. */
const mostOnProcessorBytes = 4e9;

/** The models of the catalogue that a new installation should begin with, the best first: the largest that fits and is quick. */
export function firstChoices(catalog: readonly CatalogView[], hasGpu: boolean): readonly CatalogView[] {
  const isSlow = ({ size_bytes: size }: CatalogView): number => (!hasGpu && size > mostOnProcessorBytes ? 1 : 0);
  const rank = ({ fit }: CatalogView): number => verdictRank(fit.verdict);
  return catalog
    .filter(({ capabilities, fit }) => kindOf(capabilities) === "chat" && fit.verdict !== "does_not_fit")
    .toSorted(
      (one, other) => rank(one) - rank(other) || isSlow(one) - isSlow(other) || other.size_bytes - one.size_bytes,
    )
    .slice(0, choices);
}
