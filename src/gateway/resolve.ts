import { didYouMean, nearest } from "../api/nearest.ts";
import { ApiError } from "../api/errors.ts";
import type { SlotCapability } from "../api/names.ts";
import { isAvailable } from "../api/states.ts";
import type { KnownSlot, ResolutionIndex } from "./index.ts";
import type { UpstreamModel } from "./upstreams/catalog.ts";

export type Target =
  { readonly kind: "slot"; readonly slot: KnownSlot } | { readonly kind: "upstream"; readonly model: UpstreamModel };

/**
 * The table of the specification ("Model resolution"), top to bottom, first match wins. Never falls back to another
 * model. Throws ApiError `model.not_found` or `model.not_loaded`.
 */
export function resolve(index: ResolutionIndex, value: string, inFlight: (slot: string) => number): Target {
  const slot = index.slots.get(value) ?? index.aliases.get(value);
  if (slot !== undefined) return { kind: "slot", slot };
  const named = slotBeforeColon(index, value);
  if (named !== undefined)
    return { kind: "slot", slot: throughSlot(index, named, value.slice(value.indexOf(":") + 1)) };
  const owners = index.owners.get(value) ?? index.rerankers.get(value) ?? [];
  const [owner] = owners.toSorted((a, b) => preference(a, inFlight) - preference(b, inFlight));
  if (owner !== undefined) return { kind: "slot", slot: owner };
  const upstream = index.upstreamRefs.get(value);
  if (upstream !== undefined) return { kind: "upstream", model: upstream };
  if (index.models.has(value)) throw notLoaded(index, value);
  throw notFound(index, value);
}

/**
 * Whether a value names what the second process of this slot serves, and not the slot or what its main process holds:
 * only a request to rerank is meant for it.
 */
export function meansReranker({ name, spec, status }: KnownSlot, value: string): boolean {
  const { default: declared, rerank } = spec.model;
  const ref = value.startsWith(`${name}:`) ? value.slice(name.length + 1) : value;
  return rerank !== undefined && ref === rerank && ref !== (status?.model.ref ?? declared) && value !== name;
}

/** What a request says of whom it is for. */
export interface Wanted {
  readonly model: string;
  readonly pinned?: Pinned;
}

/** A slot that serves a route whatever the model is called. */
export interface Pinned {
  readonly slot: string;
  /** Except for models of providers that claim this, and that no slot has a better right to. */
  readonly unless?: SlotCapability;
}

/** Throws ApiError as `resolve`. */
export function resolveWanted(
  index: ResolutionIndex,
  { model, pinned }: Wanted,
  inFlight: (slot: string) => number,
): Target {
  if (pinned === undefined) return resolve(index, model, inFlight);
  const { slot, unless } = pinned;
  const upstream = unless === undefined || isLocal(index, model) ? undefined : index.upstreamRefs.get(model);
  if (unless === undefined || upstream?.spec.capabilities.includes(unless) !== true)
    return resolve(index, slot, inFlight);
  return { kind: "upstream", model: upstream };
}

/**
 * The slot for which a request has waited, as it is now. Throws ApiError as `resolve` where nobody is meant any more;
 * `slot.not_ready`, to be tried again, where somebody else is: the slot holds another model by now, say.
 */
export function resolveAgain(index: ResolutionIndex, wanted: Wanted, { name }: KnownSlot): KnownSlot {
  const target = resolveWanted(index, wanted, (slot) => (slot === name ? -Infinity : 0));
  if (target.kind === "slot" && target.slot.name === name) return target.slot;
  throw new ApiError("slot.not_ready", {
    message: `slot ${name} is not who was asked for any more`,
    details: { slot: name, state: index.slots.get(name)?.status?.state ?? "offline", reason: "Changed" },
    headers: { "retry-after": "1" },
  });
}

/** A slot, an alias, `<slot>:<ref>` or a ref that a slot holds: these come before a provider's. */
function isLocal(index: ResolutionIndex, value: string): boolean {
  const { slots, aliases, owners, rerankers } = index;
  const isHeld = owners.has(value) || rerankers.has(value);
  return slots.has(value) || aliases.has(value) || isHeld || slotBeforeColon(index, value) !== undefined;
}

function slotBeforeColon(index: ResolutionIndex, value: string): KnownSlot | undefined {
  const colonAt = value.indexOf(":");
  return colonAt > 0 ? index.slots.get(value.slice(0, colonAt)) : undefined;
}

/** Available before unavailable, then the least busy. */
function preference(slot: KnownSlot, inFlight: (slot: string) => number): number {
  const base = slot.status !== undefined && isAvailable(slot.status.state) ? 0 : 1e9;
  return base + inFlight(slot.name);
}

/** `<slot>:<ref>`: the slot must hold the ref; nothing is swapped by asking. */
function throughSlot(index: ResolutionIndex, slot: KnownSlot, ref: string): KnownSlot {
  const held = slot.status?.model.ref ?? slot.spec.model.default;
  if (held === ref || slot.spec.model.rerank === ref) return slot;
  const isKnown = index.models.has(ref) || index.owners.has(ref) || index.upstreamRefs.has(ref);
  if (!isKnown) throw notFound(index, ref);
  const message = `slot ${slot.name} holds ${held ?? "no model"}, not ${ref}`;
  throw new ApiError("model.not_loaded", { message, details: { ref, slots: [slot.name] } });
}

function notLoaded(index: ResolutionIndex, ref: string): ApiError {
  const slots = [...index.slots.values()]
    .filter(({ spec }) => spec.enabled && spec.engine === "llama")
    .map(({ name }) => name);
  return new ApiError("model.not_loaded", {
    message: `${ref} is known, but no slot holds it`,
    details: { ref, slots },
  });
}

function* namesIn({ slots, aliases, models, upstreamRefs }: ResolutionIndex): Generator<string, void, undefined> {
  for (const names of [slots, aliases, models, upstreamRefs]) yield* names.keys();
}

/** Names no slot, model or upstream; with the nearest name. */
export function notFound(index: ResolutionIndex, value: string): ApiError {
  const close = nearest(value.slice(0, 200), namesIn(index));
  const suggestions = close === undefined ? [] : [close];
  return new ApiError("model.not_found", {
    message: `no slot, model or upstream is called "${value.slice(0, 200)}"${didYouMean(close)}`,
    details: { suggestions },
  });
}
