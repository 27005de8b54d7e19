import { knownNames, nearest } from "../../api/nearest.ts";
import { ApiError } from "../../api/errors.ts";
import type { SlotCapability } from "../../api/names.ts";
import { isAvailable } from "../../api/states.ts";
import { willAnswer } from "../slots/availability.ts";
import type { KnownSlot, ResolutionIndex } from "./index.ts";
import type { UpstreamModel } from "../providers/catalog.ts";

export type Target =
  | {
      readonly kind: "slot";
      readonly slot: KnownSlot;
      /** The model that the request means, of a slot whose model requests choose; undefined: whatever the slot holds. */
      readonly ref: string | undefined;
    }
  | { readonly kind: "upstream"; readonly model: UpstreamModel };

/**
 * The table of the specification ("Model resolution"), top to bottom, first match wins. Never falls back to another
 * model. Throws ApiError `model.not_found` or `model.not_loaded`.
 */
export function resolve(index: ResolutionIndex, value: string, inFlight: (slot: string) => number): Target {
  const slot = index.slots.get(value) ?? index.aliases.get(value);
  if (slot !== undefined) return { kind: "slot", slot, ref: slot.status?.onRequest?.usual };
  const named = slotBeforeColon(index, value);
  if (named !== undefined) {
    const ref = value.slice(value.indexOf(":") + 1);
    return toSlot(index, throughSlot(index, named, ref), ref);
  }
  const owners = index.owners.get(value) ?? index.rerankers.get(value) ?? [];
  const [owner] = owners.toSorted((a, b) => preference(a, value, inFlight) - preference(b, value, inFlight));
  if (owner !== undefined) return toSlot(index, owner, value);
  const upstream = index.upstreamRefs.get(value);
  if (upstream !== undefined) return { kind: "upstream", model: upstream };
  if (index.models.has(value)) throw notLoaded(index, value);
  throw notFound(index, value);
}

/**
 * Whether a value names the model of the slot's second process, and not the slot or its main model: only a request to
 * rerank may use it.
 */
export function meansReranker({ name, spec, status }: KnownSlot, value: string): boolean {
  const { default: declared, rerank } = spec.model;
  const ref = value.startsWith(`${name}:`) ? value.slice(name.length + 1) : value;
  return rerank !== undefined && ref === rerank && ref !== (status?.model.ref ?? declared) && value !== name;
}

/** The part of a request that decides its target. */
export interface ModelRequest {
  readonly model: string;
  readonly fixedSlot?: FixedSlot;
}

/** A slot that serves a route under any model name. */
export interface FixedSlot {
  readonly slot: string;
  /** Except for models of providers with this capability that no slot takes precedence over. */
  readonly unless?: SlotCapability;
}

/** Throws ApiError as `resolve`. */
export function resolveWanted(
  index: ResolutionIndex,
  { model, fixedSlot }: ModelRequest,
  inFlight: (slot: string) => number,
): Target {
  if (fixedSlot === undefined) return resolve(index, model, inFlight);
  const { slot, unless } = fixedSlot;
  const upstream = unless === undefined || isLocal(index, model) ? undefined : index.upstreamRefs.get(model);
  if (unless === undefined || upstream?.spec.capabilities.includes(unless) !== true)
    return resolve(index, slot, inFlight);
  return { kind: "upstream", model: upstream };
}

/**
 * The present state of the slot for which a request has waited. Throws ApiError as `resolve` where the value has no
 * target any more; `slot.not_ready`, to be retried, where it has another one, for example after a swap.
 */
export function resolveAgain(
  index: ResolutionIndex,
  wanted: ModelRequest,
  { name }: KnownSlot,
): Extract<Target, { kind: "slot" }> {
  const target = resolveWanted(index, wanted, (slot) => (slot === name ? -Infinity : 0));
  if (target.kind === "slot" && target.slot.name === name) return target;
  throw notThatAnyMore(name, index.slots.get(name), "the requested slot");
}

/** A request waited for a model that its slot does not hold any more; it is to be sent again. */
export function notThatAnyMore(name: string, slot: KnownSlot | undefined, what: string): ApiError {
  return new ApiError("slot.not_ready", {
    message: `slot ${name} is not ${what} any more`,
    details: { slot: name, state: slot?.status?.state ?? "offline", reason: "Changed" },
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

/** Slots that hold the model before slots that would swap to it, available ones first, then the fewest requests. */
function preference(slot: KnownSlot, ref: string, inFlight: (slot: string) => number): number {
  const isElsewhere = slot.status?.onRequest !== undefined && slot.status.model.ref !== ref;
  const isReady = slot.status !== undefined && isAvailable(slot.status.state);
  return (isElsewhere ? 2e9 : 0) + (isReady ? 0 : 1e9) + inFlight(slot.name);
}

/** Throws ApiError `model.not_found` for a model that the slot may be swapped to and that nobody knows. */
function toSlot(index: ResolutionIndex, slot: KnownSlot, ref: string): Target {
  const choice = slot.status?.onRequest;
  if (choice === undefined || !choice.refs.includes(ref)) return { kind: "slot", slot, ref: undefined };
  if (slot.spec.engine === "custom" || index.models.has(ref) || slot.status?.model.ref === ref)
    return { kind: "slot", slot, ref };
  throw new ApiError("model.not_found", {
    message: `slot ${slot.name} lists ${ref} in model.onRequest, and no such model is known: declare it or pull it`,
    details: { ref, slot: slot.name, suggestions: [] },
  });
}

/** `<slot>:<ref>`: the slot must hold the ref, or be allowed to swap to it for a request. */
function throughSlot(index: ResolutionIndex, slot: KnownSlot, ref: string): KnownSlot {
  const held = slot.status?.model.ref ?? slot.spec.model.default;
  if (held === ref || slot.spec.model.rerank === ref || slot.status?.onRequest?.refs.includes(ref) === true)
    return slot;
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

/** The names that a request may use now. */
function* namesToUse(index: ResolutionIndex): Generator<string, void, undefined> {
  for (const { name, spec } of index.slots.values()) if (spec.enabled) yield name;
  yield* index.aliases.keys();
  // A slot may name a model that is not there.
  for (const [ref, slots] of index.owners) if (index.models.has(ref) || slots.some(willAnswer)) yield ref;
  yield* index.upstreamRefs.keys();
}

/** The error for an unknown name, with the nearest known name and some of those that exist. */
export function notFound(index: ResolutionIndex, value: string): ApiError {
  const close = nearest(value.slice(0, 200), namesIn(index));
  const suggestions = close === undefined ? [] : [close];
  return new ApiError("model.not_found", {
    message: `no slot, model or upstream is called "${value.slice(0, 200)}"${knownNames(close, namesToUse(index))}`,
    details: { suggestions },
  });
}
