import { ApiError } from "../../api/errors.ts";
import type { ProcessRole, SlotCapability } from "../../api/names.ts";
import type { UpstreamModel } from "../providers/catalog.ts";
import type { BackendRequest, V1Request } from "../v1/route.ts";
import type { KnownSlot, ResolutionIndex } from "./index.ts";
import { meansReranker, notThatAnyMore, resolveAgain, type Target } from "./resolve.ts";

/** A request for a slot, as its engine is asked. Made again where the slot has changed while the request waited. */
export interface PreparedForSlot {
  readonly request: V1Request;
  readonly slot: KnownSlot;
  readonly role: ProcessRole;
  /** The model that must answer, where requests choose the slot's model. */
  readonly ref: string | undefined;
  readonly backendRequest: BackendRequest;
}

/** A request for a provider. */
export interface PreparedForProvider {
  readonly request: V1Request;
  readonly model: UpstreamModel;
  readonly backendRequest: BackendRequest;
}

/** The body of the request, and that for the backend, are not needed any more. */
export function dropBody(prepared: {
  readonly request: Pick<V1Request, "drop">;
  readonly backendRequest: Pick<BackendRequest, "drop">;
}): void {
  prepared.request.drop?.();
  prepared.backendRequest.drop?.();
}

/** Throws ApiError where the target does not serve the request. */
export function prepare(request: V1Request, target: Target): PreparedForSlot | PreparedForProvider {
  return target.kind === "upstream"
    ? prepareForProvider(request, target.model)
    : prepareForSlot(request, target.slot, target.ref);
}

/** Throws ApiError where the slot does not serve the request. */
function prepareForSlot(request: V1Request, slot: KnownSlot, ref: string | undefined): PreparedForSlot {
  const backendRequest = request.forSlot(slot);
  const { capability } = backendRequest;
  // The capabilities of another model of the slot are known once that model is loaded.
  if (ref === undefined || slot.status?.model.ref === ref) checkCapability(slot, capability);
  if (capability !== "rerank" && !slot.status?.aliases.includes(request.model) && meansReranker(slot, request.model)) {
    throw new ApiError("dispatch.capability_mismatch", {
      message: `slot ${slot.name} holds ${request.model.slice(0, 200)} to rerank with, not for ${capability}`,
      details: { slot: slot.name, capability, capabilities: ["rerank"] },
    });
  }
  const role = roleFor(slot, capability);
  return { request, slot, role, ref: role === "main" ? ref : undefined, backendRequest };
}

/**
 * Prepares the request by what is published now: while it waited, its slot may have changed, down to the model that it
 * holds. Throws ApiError where the request does not mean that slot any more, or the slot does not serve it.
 */
export function prepareAgain(index: ResolutionIndex, prepared: PreparedForSlot): PreparedForSlot {
  const { slot, ref } = resolveAgain(index, prepared.request, prepared.slot);
  // Each request is answered by the model that it names, and by no other.
  if (prepared.role === "main" && ref !== undefined && slot.status?.model.ref !== ref)
    throw notThatAnyMore(slot.name, slot, `loaded with ${ref}`);
  return slot === prepared.slot && ref === prepared.ref ? prepared : prepareForSlot(prepared.request, slot, ref);
}

/** Throws ApiError where the provider does not serve the request. */
function prepareForProvider(request: V1Request, model: UpstreamModel): PreparedForProvider {
  const { upstream, spec } = model;
  const backendRequest = request.forProvider?.(model);
  if (backendRequest === undefined || !spec.capabilities.includes(backendRequest.capability)) {
    throw new ApiError("dispatch.capability_mismatch", {
      message: `${request.model} of upstream ${upstream} does not serve this route`,
      details: { upstream, capabilities: spec.capabilities },
    });
  }
  return { request, model, backendRequest };
}

/** Throws ApiError `dispatch.capability_mismatch`. */
export function checkCapability({ name, status }: KnownSlot, capability: SlotCapability): void {
  if (status === undefined || status.capabilities.length === 0 || status.capabilities.includes(capability)) return;
  throw new ApiError("dispatch.capability_mismatch", {
    message: `slot ${name} does not serve ${capability}`,
    details: { slot: name, capability, capabilities: status.capabilities },
  });
}

/** The process of a slot with two that has that capability. */
export function roleFor({ status, spec }: KnownSlot, capability: SlotCapability): ProcessRole {
  const hasSecond = spec.model.rerank !== undefined || status?.processes.some(({ role }) => role === "rerank") === true;
  return capability === "rerank" && hasSecond ? "rerank" : "main";
}
