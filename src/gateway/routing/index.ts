import type { ModelRecord } from "../../api/model.ts";
import { builtinSlots, isBuiltin } from "../../api/names.ts";
import { resourceKey, type ResourceStatus } from "../../api/resource-status.ts";
import { completeSlot, unconfiguredSlot, type SlotSpec } from "../../api/slot.ts";
import type { PublishedSlot, SlotStatus } from "../../api/status.ts";
import type { PublishedStore } from "../../store/store.ts";
import type { UpstreamModel } from "../providers/catalog.ts";

/** A slot as the gateway uses it: its published state, with defaults filled in. */
export interface KnownSlot {
  readonly name: string;
  readonly spec: SlotSpec;
  readonly status: SlotStatus | undefined;
  readonly published: PublishedSlot | undefined;
  readonly revision: number;
}

/** The inputs of resolution; rebuilt when the published state changes, never per request. */
export interface ResolutionIndex {
  readonly slots: ReadonlyMap<string, KnownSlot>;
  /** Slots by alias. */
  readonly aliases: ReadonlyMap<string, KnownSlot>;
  /** The enabled slots that own a ref. */
  readonly owners: ReadonlyMap<string, readonly KnownSlot[]>;
  /** The enabled slots whose second process serves a ref. */
  readonly rerankers: ReadonlyMap<string, readonly KnownSlot[]>;
  readonly models: ReadonlyMap<string, ModelRecord>;
  readonly upstreamRefs: ReadonlyMap<string, UpstreamModel>;
  /** The conditions of declared models and upstreams, by kind and name. */
  readonly resources: ReadonlyMap<string, ResourceStatus>;
}

/** The result for each published slot: a change of one slot costs nothing for the others. */
const known = new WeakMap<PublishedSlot, KnownSlot>();

function knownSlot(published: PublishedSlot): KnownSlot {
  let slot = known.get(published);
  if (slot === undefined) {
    const { name, status, revision } = published;
    slot = { name, spec: completeSlot(name, published.spec), status, published, revision };
    known.set(published, slot);
  }
  return slot;
}

/** The index of the present published state. */
export function buildIndex(
  published: Pick<PublishedStore, "slots" | "registry">,
  upstreamRefs: ReadonlyMap<string, UpstreamModel>,
): ResolutionIndex {
  const slots = new Map<string, KnownSlot>();
  for (const name of builtinSlots) {
    slots.set(name, { name, spec: unconfiguredSlot(name), status: undefined, published: undefined, revision: 0 });
  }
  for (const slot of published.slots()) slots.set(slot.name, knownSlot(slot));
  const aliases = new Map<string, KnownSlot>();
  const owners = new Map<string, KnownSlot[]>();
  const rerankers = new Map<string, KnownSlot[]>();
  for (const slot of slots.values()) {
    for (const alias of slot.status?.aliases ?? []) if (!slots.has(alias)) aliases.set(alias, slot);
    if (!slot.spec.enabled) continue;
    const ref = slot.status?.model.ref ?? slot.spec.model.default;
    const { rerank } = slot.spec.model;
    for (const owned of refsOf(slot, ref)) append(owners, owned, slot);
    if (rerank !== undefined) append(rerankers, rerank, slot);
  }
  const registry = published.registry();
  const models = new Map(registry.models.map((model) => [model.ref, model]));
  const resources = new Map(registry.resources.map((resource) => [resourceKey(resource), resource]));
  return { slots, aliases, owners, rerankers, models, upstreamRefs, resources };
}

function append(slots: Map<string, KnownSlot[]>, key: string, slot: KnownSlot): void {
  const known = slots.get(key);
  if (known === undefined) slots.set(key, [slot]);
  else known.push(slot);
}

/** The slot's model; of a slot whose model requests choose, all of them. */
function refsOf({ status }: KnownSlot, held: string | undefined): ReadonlySet<string> {
  return new Set([...(held === undefined ? [] : [held]), ...(status?.onRequest?.refs ?? [])]);
}

/**
 * The enabled slots that need a model's files: for their main process, for the one that reranks or as a projector,
 * under this ref or another one of the same files.
 */
export function holdersOf(index: ResolutionIndex, model: ModelRecord): readonly KnownSlot[] {
  let byNeed = holders.get(index);
  if (byNeed === undefined) holders.set(index, (byNeed = slotsByNeed(index)));
  const found = new Set([model.ref, ...model.files].flatMap((need) => byNeed.get(need) ?? []));
  return found.size < 2 ? [...found] : [...index.slots.values()].filter((slot) => found.has(slot));
}

/** The holders in each index, computed once: lists ask for those of every model. */
const holders = new WeakMap<ResolutionIndex, ReadonlyMap<string, readonly KnownSlot[]>>();

/** The enabled slots by each ref, and by each absolute path of a file, that they need. */
function slotsByNeed({ slots, models }: ResolutionIndex): ReadonlyMap<string, readonly KnownSlot[]> {
  const byNeed = new Map<string, KnownSlot[]>();
  for (const slot of slots.values()) {
    const { spec, status } = slot;
    if (!spec.enabled) continue;
    const { default: declared, rerank, projector, onRequest } = spec.model;
    const refs = [status?.model.ref ?? declared, rerank, projector, ...onRequest];
    const held = refs.flatMap((ref) => models.get(ref ?? "") ?? []);
    const files = held.flatMap((model) => [...model.files, model.projectorPath]);
    for (const need of new Set([...refs, ...files])) {
      if (need !== undefined) append(byNeed, need, slot);
    }
  }
  return byNeed;
}

/** Built-in slots in the specification's order, then custom slots by name. */
export function slotsInOrder(index: ResolutionIndex): readonly KnownSlot[] {
  const custom = [...index.slots.values()].filter(({ name }) => !isBuiltin(name));
  const builtins = builtinSlots.flatMap((name) => index.slots.get(name) ?? []);
  return [...builtins, ...custom.toSorted((a, b) => (a.name < b.name ? -1 : 1))];
}
