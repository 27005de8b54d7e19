import type { Hardware } from "../../api/hardware.ts";
import type { ModelRecord } from "../../api/model.ts";
import type { runtimeKinds } from "../../api/names.ts";
import { completeSlot, type ParsedSlotSpec } from "../../api/slot.ts";
import type { ShapeCache } from "./shape-cache.ts";
import { declaredFit, specFit, type SpecRefusal } from "./spec-fit.ts";

/** The facts about this machine and its models that decide whether a slot can be loaded. */
export interface FitFacts {
  readonly models: ReadonlyMap<string, ModelRecord>;
  /** Undefined: the machine was never probed. */
  readonly machine: Hardware | undefined;
  /** The service's: Pods run on any node, and the scheduler judges them. */
  readonly runtime: (typeof runtimeKinds)[number];
  readonly shapes: ShapeCache;
}

/** The reason why a slot cannot be loaded on this machine with nothing else on it. `subject`: its model, or its own name. */
export interface SlotRefusal extends SpecRefusal {
  readonly subject: string;
  /** The field to change. */
  readonly path: readonly string[];
}

/**
 * Whether a slot can never fit this machine: by the header of its model's files, else by the figures that the model
 * declares, and by the memory that the slot reserves. Undefined where it may fit, and where that is not known.
 */
export async function slotRefusal(
  name: string,
  declared: ParsedSlotSpec,
  { models, machine, runtime, shapes }: FitFacts,
): Promise<SlotRefusal | undefined> {
  const spec = completeSlot(name, declared);
  if (!spec.enabled || [runtime, spec.runtime].includes("kubernetes") || machine === undefined) return undefined;
  const ref = spec.model.default;
  const model = ref === undefined ? undefined : models.get(ref);
  const backend = machine.suggested[spec.engine]?.backend;
  const isRead = spec.engine === "llama" && spec.command === undefined && model?.state === "available";
  const shape = isRead && model.path !== undefined ? await shapes.of(model.files, model.fingerprint ?? "") : undefined;
  const byHeader = shape === undefined ? undefined : specFit(spec, shape, machine, backend);
  if (byHeader !== undefined && model !== undefined) return { ...byHeader, subject: model.ref, path: ["model"] };
  const declaredOnly = declaredFit(spec, shape === undefined ? model : undefined, machine, backend);
  if (declaredOnly === undefined) return undefined;
  const { isByManifest, ...refusal } = declaredOnly;
  return isByManifest
    ? { ...refusal, subject: name, path: ["resources", "memoryBytes"] }
    : { ...refusal, subject: model?.ref ?? name, path: ["model"] };
}
