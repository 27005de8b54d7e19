import type { ModelView, SlotView } from "../../src/api/management/views.ts";
import { capabilityWords } from "./parts/capability-words.ts";
import { inOrder, isSetUp } from "./slot-order.ts";

/** More slots than a menu should have; each slot's own page swaps, too. */
const most = 12;

/** Whether the model can something that the slot is for. */
export function isFor(
  { capabilities: own }: { readonly capabilities: readonly string[] },
  { capabilities }: { readonly capabilities: readonly string[] },
): boolean {
  return capabilities.some((each) => own.includes(each) || own.includes(capabilityWords([each])));
}

/** The slots that could hold a model instead of theirs, or as their first one; those that hold it already are left out. */
export function slotsFor(
  { id, capabilities }: Pick<ModelView, "id" | "capabilities">,
  slots: readonly SlotView[],
): readonly SlotView[] {
  // A built-in slot that nobody has set up is not enabled yet.
  const fitting = inOrder(slots).filter(
    (slot) =>
      (slot.enabled || !isSetUp(slot)) &&
      slot.engine !== "custom" &&
      slot.model !== id &&
      isFor(slot, { capabilities }),
  );
  return [...fitting.filter(isSetUp), ...fitting.filter((slot) => !isSetUp(slot))].slice(0, most);
}
