import { ApiError } from "../../api/errors.ts";
import { knownNames, nearest } from "../../api/nearest.ts";
import { modelRefSchema } from "../../api/names.ts";
import { invalidRequest } from "../../api/problems.ts";
import { wrongWork } from "../../api/slot-work.ts";
import { completeSlot, slotSpecSchema } from "../../api/slot.ts";
import type { KnownSlot } from "../routing/index.ts";
import { viewOf, type ManagementContext } from "./context.ts";

/** Refuses to write a model into a built-in slot that cannot do the slot's work. */
export function checkWork(context: ManagementContext, name: string, spec: Readonly<Record<string, unknown>>): void {
  const { data } = slotSpecSchema.safeParse(spec);
  if (data === undefined || data.model.default === undefined) return;
  const message = wrongWork(name, completeSlot(name, data), context.index().models.get(data.model.default));
  if (message !== undefined)
    throw new ApiError("config.invalid", { message, details: { path: ["model", "default"], message } });
}

/** Refuses a swap to a model that is not known, or that cannot do the slot's work. */
export function checkSwap(
  context: ManagementContext,
  slot: KnownSlot,
  model: string | undefined,
  isReset: boolean,
): void {
  if ((model === undefined) === !isReset)
    throw invalidRequest([{ path: ["model"], message: "name a model, or reset: true" }]);
  if (model === undefined) return;
  const { index } = viewOf(context);
  // A custom slot may name an undeclared model (RESOURCES "Slot").
  const isFree = slot.spec.engine === "custom" && modelRefSchema.safeParse(model).success;
  const wrong = wrongWork(slot.name, slot.spec, index.models.get(model));
  if (wrong !== undefined)
    throw new ApiError("config.invalid", { message: wrong, details: { path: ["model"], message: wrong } });
  if (index.models.has(model) || isFree || slot.spec.model.default === model) return;
  throw new ApiError("model.not_found", {
    message: `no model is called "${model.slice(0, 200)}"${knownNames(nearest(model, index.models.keys()), index.models.keys())}`,
  });
}
