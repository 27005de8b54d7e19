import type { ModelRecord } from "../../api/model.ts";
import type { RouterModel, RouterStatus } from "../../api/management/router-routes.ts";
import { isAvailable } from "../../api/states.ts";
import type { SlotStatus } from "../../api/status.ts";
import { slotsInOrder, type KnownSlot, type ResolutionIndex } from "../routing/index.ts";

/** A model in the words of llama-server's router, and the slot that loads it. */
export interface RoutedModel {
  readonly slot: KnownSlot;
  /** The slot's model, or one of those that requests may choose; undefined: an engine of one's own without a model. */
  readonly ref: string | undefined;
  readonly item: RouterModel;
}

/**
 * Every model that an enabled slot holds or may be swapped to, each id once: of several slots the one that has it
 * loaded, else the one that loads it, else the one that holds it, else the first. So a load makes no second engine of a
 * model beside that of its holder, and requests that name the model go to the same slot. `startedAt`: the age of models without a known age.
 */
export function routedModels(index: ResolutionIndex, startedAt: number): readonly RoutedModel[] {
  const found = new Map<string, RoutedModel>();
  for (const slot of slotsInOrder(index)) {
    if (!slot.spec.enabled) continue;
    for (const ref of refsOf(slot)) {
      // An engine of one's own may have models that nobody else knows.
      if (ref !== undefined && slot.spec.engine !== "custom" && isUnknown(index, slot, ref)) continue;
      const routed = { slot, ref, item: itemOf(index, slot, ref, startedAt) };
      const known = found.get(routed.item.id);
      if (known === undefined || rank(routed) < rank(known)) found.set(routed.item.id, routed);
    }
  }
  return [...found.values()];
}

/**
 * The model of that id, or of a slot with that name or alias: also of one whose model the list has at another slot, for
 * clients have slots from `/v1/models`.
 */
export function routedModel(index: ResolutionIndex, name: string, startedAt: number): RoutedModel | undefined {
  const byId = routedModels(index, startedAt).find(({ item }) => item.id === name);
  if (byId !== undefined) return byId;
  for (const slot of slotsInOrder(index)) {
    if (!slot.spec.enabled) continue;
    for (const ref of refsOf(slot)) {
      const item = itemOf(index, slot, ref, startedAt);
      if (item.aliases.includes(name)) return { slot, ref, item };
    }
  }
  return undefined;
}

function rank({ slot, ref, item }: RoutedModel): number {
  const { value } = item.status;
  if (value === "loaded") return 0;
  if (value === "loading" || value === "downloading") return 1;
  return slot.status?.onRequest === undefined || slot.status.model.ref === ref ? 2 : 3;
}

/** A model of `model.onRequest` that no request can reach. */
function isUnknown({ models }: ResolutionIndex, { status }: KnownSlot, ref: string): boolean {
  return status?.onRequest !== undefined && status.model.ref !== ref && !models.has(ref);
}

function refsOf({ status, spec }: KnownSlot): readonly (string | undefined)[] {
  return status?.onRequest?.refs ?? [status?.model.ref ?? spec.model.default];
}

function itemOf(index: ResolutionIndex, slot: KnownSlot, ref: string | undefined, startedAt: number): RouterModel {
  const { name, spec, status } = slot;
  const model = ref === undefined ? undefined : index.models.get(ref);
  const isUsual = (status?.onRequest?.usual ?? ref) === ref;
  const id = ref ?? name;
  const names = isUsual ? [name, ...(status?.aliases ?? [])].filter((each) => each !== id) : [];
  const { contextSize } = spec.model;
  const value = routerStatus(slot, ref);
  return {
    id,
    aliases: names,
    object: "model",
    created: model?.created || Math.floor(startedAt / 1000),
    owned_by: "berth",
    status: { ...value, args: contextSize === undefined ? [] : ["--ctx-size", String(contextSize)] },
    architecture: modalitiesOf(model?.capabilities ?? []),
    source: "preset",
    can_remove: false,
    berth: { slot: name, state: status?.state ?? "offline" },
  };
}

/**
 * The state of a slot's model. A failure is `unloaded` and `failed`, as llama-server's router has it. `nowMs`: by the clock of
 * the wall.
 */
export function routerStatus({ spec, status }: KnownSlot, ref: string | undefined, nowMs = Date.now()): RouterStatus {
  if (status === undefined) return { value: "unloaded" };
  const { state, onRequest, model, progress } = status;
  const isHeld = onRequest === undefined || model.ref === ref;
  const isChosen = onRequest === undefined || onRequest.chosen === ref;
  if (isHeld && (isAvailable(state) || (state === "unloading" && status.processes.length > 0)))
    return { value: "loaded" };
  if (state === "error" && isChosen) return failed(status.lastError);
  // While the model that is held serves, the state is that of the slot.
  if (isChosen && (state === "pulling" || (!isHeld && progress !== undefined))) return downloading(ref, progress);
  if (isChosen && (state === "starting" || state === "warming")) return loading(state, status.lastLoad, nowMs);
  const failure = onRequest?.failed.find((each) => each.ref === ref);
  if (failure !== undefined) return failed(failure);
  return { value: isHeld && isAsleep(spec.load, status) ? "sleeping" : "unloaded" };
}

/** The model was loaded, is idle, and the next request loads it again. */
function isAsleep(load: "always" | "onDemand", { state, transitions }: SlotStatus): boolean {
  if (load !== "onDemand" || state !== "offline") return false;
  const left = transitions.findLast(({ to }) => to === "unloading");
  return left?.reason === "ScaledToZero";
}

function failed(error: { readonly reason: string; readonly message: string } | undefined): RouterStatus {
  const code = /\bcode (\d{1,3})\b/.exec(error?.message ?? "")?.[1];
  return {
    value: "unloaded",
    failed: true,
    ...(code === undefined ? {} : { exit_code: Number(code) }),
    ...(error === undefined ? {} : { reason: error.reason }),
  };
}

/** The part of the present stage that is over, by the times of the load before; without one it is not known. */
function loading(current: "starting" | "warming", load: SlotStatus["lastLoad"], nowMs: number): RouterStatus {
  const { startedAt, startSeconds = 0, previous } = load ?? {};
  const stages = ["starting", "warming"];
  if (startedAt === undefined || previous === undefined) return { value: "loading", progress: { stages, current } };
  const [skipped, whole] = current === "starting" ? [0, previous.startSeconds] : [startSeconds, previous.warmSeconds];
  const seconds = (nowMs - Date.parse(startedAt)) / 1000 - skipped;
  const value = whole <= 0 ? mostOver : Math.min(mostOver, Math.max(0, seconds / whole));
  return { value: "loading", progress: { stages, current, value: Math.round(value * 100) / 100 } };
}

/** A load that takes longer than the one before is not over. */
const mostOver = 0.99;

function downloading(ref: string | undefined, progress: SlotStatus["progress"]): RouterStatus {
  const done = progress?.bytesDone ?? 0;
  return { value: "downloading", progress: { [ref ?? "model"]: { done, total: progress?.bytesTotal ?? done } } };
}

function modalitiesOf(capabilities: ModelRecord["capabilities"]): RouterModel["architecture"] {
  const has = (capability: ModelRecord["capabilities"][number]): boolean => capabilities.includes(capability);
  const input = has("stt") ? ["audio"] : ["text", ...(has("vision") ? ["image"] : [])];
  const output = has("tts") ? "audio" : has("image") ? "image" : has("embed") && !has("chat") ? "embeddings" : "text";
  return { input_modalities: input, output_modalities: [output] };
}
