import type { V1Model } from "../../api/management/v1-model.ts";
import { isNoModel, type ModelRecord } from "../../api/model.ts";
import { isBuiltin, withTranslated } from "../../api/names.ts";
import { willAnswer } from "../slots/availability.ts";
import { holdersOf, slotsInOrder, type KnownSlot, type ResolutionIndex } from "../routing/index.ts";
import { contextLengthOf } from "./context-length.ts";
import { routedModels, routerStatus } from "./router-models.ts";
import type { Traffic } from "../slots/traffic.ts";

interface V1Context {
  readonly index: ResolutionIndex;
  readonly traffic: Traffic;
  /** Milliseconds since 1970: the age of models without a known age. */
  readonly startedAt: number;
}

/**
 * `/v1/models`, each id once: slots in the specification's order, then registry models, then upstream models. People
 * choose from the list, so that custom slots that cannot answer and files that are no models are left out. `all`: they are
 * included; `available`: built-in slots that cannot answer are left out as well, and so are models that no slot holds.
 */
export function v1Models(context: V1Context, { all, available }: { all: boolean; available: boolean }): V1Model[] {
  const { index } = context;
  const listed = [
    ...slotsInOrder(index)
      .filter((slot) => all || (isBuiltin(slot.name) && !available) || willAnswer(slot))
      .map((slot) => slotItem(slot, context)),
    ...requestedItems(context),
    ...modelItems(context, all).filter(({ berth: { slot } }) => all || !available || slot !== null),
    ...upstreamItems(context),
  ];
  // A slot hides a model of its name, and a provider's model one that no slot holds: the order of resolution.
  const items = new Map<string, V1Model>();
  for (const item of listed) {
    const known = items.get(item.id);
    const isHidden = known !== undefined && (known.berth.slot !== null || known.berth.kind !== "model");
    if (!isHidden) items.set(item.id, item);
  }
  return [...items.values()];
}

/** The target of that name, listed or not: an alias is its slot. Undefined: none. */
export function v1Model(context: V1Context, id: string): V1Model | undefined {
  const slot = context.index.slots.get(id) ?? context.index.aliases.get(id);
  if (slot !== undefined) return slotItem(slot, context);
  return v1Models(context, { all: true, available: false }).find((item) => item.id === id);
}

function slotItem(slot: KnownSlot, { index, traffic, startedAt }: V1Context): V1Model {
  const ref = slot.status?.model.ref ?? slot.spec.model.default;
  return {
    id: slot.name,
    object: "model",
    created: createdOf(ref === undefined ? undefined : index.models.get(ref), startedAt),
    owned_by: "berth",
    status: { value: routerStatus(slot, slot.status?.onRequest?.usual ?? ref).value },
    ...lengthsOf(slot, ref === undefined ? undefined : index.models.get(ref)),
    berth: {
      kind: "slot",
      state: traffic.stateOf(slot),
      slot: slot.name,
      model: ref ?? null,
      capabilities: slot.status?.capabilities ?? [],
    },
  };
}

/** Each client reads the length of the context from a field of its own. */
function lengthsOf(
  slot: KnownSlot | undefined,
  model: ModelRecord | undefined,
): Pick<V1Model, "context_length" | "max_model_len" | "meta"> {
  const tokens = slot === undefined ? undefined : contextLengthOf(slot);
  const longest = model?.contextLength;
  const meta = {
    ...(tokens === undefined ? {} : { n_ctx: tokens }),
    ...(longest === undefined ? {} : { n_ctx_train: longest }),
  };
  return {
    ...(tokens === undefined ? {} : { context_length: tokens, max_model_len: tokens }),
    ...(Object.keys(meta).length === 0 ? {} : { meta }),
  };
}

/** Unix seconds, never 0: clients show dates, and a file may have the time 0. */
function createdOf(model: Pick<ModelRecord, "created"> | undefined, startedAt: number): number {
  return model?.created || Math.floor(startedAt / 1000);
}

function modelItems({ index, startedAt }: V1Context, all: boolean): V1Model[] {
  const routed = new Map(routedModels(index, startedAt).map(({ item }) => [item.id, item.status.value]));
  return [...index.models.values()]
    .filter((model) => all || !isNoModel(model))
    .toSorted((a, b) => (a.ref < b.ref ? -1 : 1))
    .map((model) => {
      const [holder] = holdersOf(index, model);
      const { state, capabilities } = model;
      return {
        id: model.ref,
        object: "model",
        created: createdOf(model, startedAt),
        owned_by: "berth",
        status: { value: routed.get(model.ref) ?? "unloaded" },
        ...lengthsOf(holder, model),
        berth: { kind: "model", state, slot: holder?.name ?? null, capabilities },
      };
    });
}

/** Models that requests may choose and only their slot's engine knows. */
function requestedItems({ index, startedAt }: V1Context): V1Model[] {
  return slotsInOrder(index).flatMap((slot) =>
    (slot.spec.enabled && slot.spec.engine === "custom" ? (slot.status?.onRequest?.refs ?? []) : [])
      .filter((ref) => !index.models.has(ref))
      .map((ref) => ({
        id: ref,
        object: "model",
        created: createdOf(undefined, startedAt),
        owned_by: "berth",
        status: { value: routerStatus(slot, ref).value },
        berth: { kind: "model", state: "unknown", slot: slot.name, capabilities: [] },
      })),
  );
}

function upstreamItems({ index, startedAt }: V1Context): V1Model[] {
  return [...index.upstreamRefs].map(([id, { upstream, spec }]) => ({
    id,
    object: "model",
    created: createdOf(undefined, startedAt),
    owned_by: "berth",
    berth: {
      kind: "upstream",
      state: "unknown",
      slot: null,
      upstream,
      capabilities: withTranslated(spec.capabilities),
    },
  }));
}
