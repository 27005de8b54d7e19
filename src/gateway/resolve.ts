import { didYouMean, nearest } from "../api/nearest.ts";
import { ApiError } from "../api/errors.ts";
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
  const colonAt = value.indexOf(":");
  const named = colonAt > 0 ? index.slots.get(value.slice(0, colonAt)) : undefined;
  if (named !== undefined) return { kind: "slot", slot: throughSlot(index, named, value.slice(colonAt + 1)) };
  const [owner] = (index.owners.get(value) ?? []).toSorted((a, b) => preference(a, inFlight) - preference(b, inFlight));
  if (owner !== undefined) return { kind: "slot", slot: owner };
  const upstream = index.upstreamRefs.get(value);
  if (upstream !== undefined) return { kind: "upstream", model: upstream };
  if (index.models.has(value)) throw notLoaded(index, value);
  throw notFound(index, value);
}

/** Available before unavailable, then the least busy. */
function preference(slot: KnownSlot, inFlight: (slot: string) => number): number {
  const base = slot.status !== undefined && isAvailable(slot.status.state) ? 0 : 1e9;
  return base + inFlight(slot.name);
}

/** `<slot>:<ref>`: the slot must hold the ref; nothing is swapped by asking. */
function throughSlot(index: ResolutionIndex, slot: KnownSlot, ref: string): KnownSlot {
  const held = slot.status?.model.ref ?? slot.spec.model.default;
  if (held === ref) return slot;
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
