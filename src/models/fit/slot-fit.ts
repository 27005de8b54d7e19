import type { Hardware } from "../../api/hardware.ts";
import type { ModelRecord } from "../../api/model.ts";
import { completeSlot, type ParsedSlotSpec } from "../../api/slot.ts";
import type { ShapeCache } from "./shape-cache.ts";
import { specFit, type SpecRefusal } from "./spec-fit.ts";

/** The facts about this machine and its models that decide whether a slot can be loaded. */
export interface FitFacts {
  readonly models: ReadonlyMap<string, ModelRecord>;
  /** Undefined: the machine was never probed. */
  readonly machine: Hardware | undefined;
  readonly shapes: ShapeCache;
}

/** The model of a slot that cannot be loaded on this machine with nothing else on it, and why. */
export interface SlotRefusal extends SpecRefusal {
  readonly model: string;
}

/**
 * Whether the model of a slot can never fit this machine, by the header of its files. Undefined where it may fit, and where
 * that is not known: the model is not on this machine yet, or the engine is another one.
 */
export async function slotRefusal(
  name: string,
  declared: ParsedSlotSpec,
  { models, machine, shapes }: FitFacts,
): Promise<SlotRefusal | undefined> {
  const spec = completeSlot(name, declared);
  const ref = spec.model.default;
  const model = ref === undefined ? undefined : models.get(ref);
  if (spec.engine !== "llama" || spec.command !== undefined || !spec.enabled) return undefined;
  if (model?.state !== "available" || model.path === undefined || machine === undefined) return undefined;
  const shape = await shapes.of(model.files, model.fingerprint ?? "");
  const refusal = shape === undefined ? undefined : specFit(spec, shape, machine, machine.suggested.llama?.backend);
  return refusal === undefined ? undefined : { ...refusal, model: model.ref };
}
