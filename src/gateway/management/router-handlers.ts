import { ApiError } from "../../api/errors.ts";
import type { RouterModel } from "../../api/management/router-routes.ts";
import { didYouMean, nearest } from "../../api/nearest.ts";
import { isAvailable } from "../../api/states.ts";
import type { Handlers } from "./api-server.ts";
import { viewOf, type ManagementContext } from "./context.ts";
import { contextLengthOf } from "./context-length.ts";
import { openEvents, stayOpen } from "./event-response.ts";
import { slotsInOrder, type KnownSlot } from "../routing/index.ts";
import { routedModel, routedModels, type RoutedModel } from "./router-models.ts";
import { changeSlot, disabled } from "./slot-changes.ts";

type RouterHandlers = Pick<Handlers, "routerModels" | "routerProps" | "routerEvents" | "routerLoad" | "routerUnload">;

/** A reader that is further behind is disconnected: it reads the list anew when it connects again. */
const behindLimitBytes = 1024 * 1024;
/** No wait: the operator has the request, and its effect shows in the list and the events. */
const atOnce = { wait: undefined, timeout: 0 } as const;

/** Models in the dialect of llama-server's router. */
export function routerHandlers(context: ManagementContext): RouterHandlers {
  const models = (): readonly RoutedModel[] => routedModels(context.index(), context.startedAt);
  const named = (name: string): RoutedModel => {
    const found = routedModel(context.index(), name, context.startedAt);
    if (found !== undefined) return found;
    const { slots, aliases } = context.index();
    const slot = slots.get(name) ?? aliases.get(name) ?? slotsInOrder(context.index()).find(holds(name));
    if (slot !== undefined && !slot.spec.enabled) throw disabled(slot);
    const close = nearest(
      name,
      models().map(({ item }) => item.id),
    );
    throw new ApiError("model.not_found", {
      message: `no slot holds a model called "${name}", or may be swapped to it${didYouMean(close)}`,
      details: { suggestions: close === undefined ? [] : [close] },
    });
  };
  const follow = followChanges(context.watch, models);
  return {
    routerModels: () => ({ object: "list", data: models().map(({ item }) => item) }),
    routerProps({ query: { model: name = "primary" } }) {
      const { index, traffic } = viewOf(context);
      const slot = index.slots.get(name) ?? index.aliases.get(name) ?? named(name).slot;
      const ref = slot.status?.model.ref ?? slot.spec.model.default ?? "";
      const capabilities = index.models.get(ref)?.capabilities ?? [];
      return {
        default_generation_settings: { n_ctx: contextLengthOf(slot) ?? 0, params: {} },
        total_slots: slot.spec.model.parallel,
        model_alias: slot.name,
        model_path: ref,
        modalities: { vision: capabilities.includes("vision"), audio: capabilities.includes("stt") },
        chat_template: "",
        build_info: `berth ${context.version}`,
        is_sleeping: !isAvailable(traffic.stateOf(slot)),
      };
    },
    async routerLoad({ body, request }) {
      const { slot, ref, item } = named(body.model);
      const { value } = item.status;
      if (value === "loaded" || value === "loading" || value === "downloading")
        throw new ApiError("dispatch.invalid_request", { message: `model ${item.id} is already running: ${value}` });
      const model = slot.status?.onRequest === undefined ? undefined : ref;
      await changeSlot(context, slot.name, { kind: "load", model }, atOnce, request);
      return { success: true };
    },
    async routerUnload({ body, request }) {
      const routed = named(body.model);
      const { slot, item } = routed;
      if (item.status.value === "unloaded" && !isAskedToLoad(context, routed))
        throw new ApiError("dispatch.invalid_request", { message: `model ${item.id} is not running` });
      await changeSlot(context, slot.name, { kind: "unload" }, atOnce, request);
      return { success: true };
    },
    async routerEvents({ reply }) {
      const stream = openEvents(reply, context);
      const { response } = stream;
      using _following = follow((text) => {
        if (response.writableEnded) return;
        if (response.writableLength > behindLimitBytes) response.destroy();
        else response.write(text);
      });
      await stayOpen(stream);
      return reply;
    },
  };
}

function holds(ref: string): (slot: KnownSlot) => boolean {
  return ({ spec, status }) => (status?.model.ref ?? spec.model.default) === ref;
}

/** Whether a load was accepted that the operator has not begun: what is published is older. */
function isAskedToLoad({ requests }: ManagementContext, { slot: { name, status }, ref }: RoutedModel): boolean {
  const asked = requests.list(name).find(({ kind }) => kind === "load");
  if (asked === undefined || status?.handledRequests["load"] === asked.token) return false;
  return asked.model === undefined || asked.model === ref;
}

type Follow = (reader: (text: string) => void) => Disposable;

/** Finds the changes of the list once for all readers, and only while there are some. */
function followChanges(watch: ManagementContext["watch"], models: () => readonly RoutedModel[]): Follow {
  const readers = new Set<(text: string) => void>();
  let known: Items = new Map();
  let watching: Disposable | undefined;
  const onChange = (): void => {
    const now = itemsById(models());
    for (const event of eventsBetween(known, now)) {
      const text = `data: ${JSON.stringify(event)}\n\n`;
      for (const reader of readers) reader(text);
    }
    known = now;
  };
  return (reader) => {
    if (watching === undefined) {
      known = itemsById(models());
      watching = watch(onChange);
    }
    readers.add(reader);
    return {
      [Symbol.dispose]() {
        readers.delete(reader);
        if (readers.size > 0) return;
        watching?.[Symbol.dispose]();
        watching = undefined;
      },
    };
  };
}

type Items = ReadonlyMap<string, RouterModel>;

function itemsById(models: readonly RoutedModel[]): Items {
  return new Map(models.map(({ item }) => [item.id, item]));
}

/** The events of llama-server's router for what has changed. */
function* eventsBetween(before: Items, now: Items): Generator<object, void, undefined> {
  for (const id of before.keys()) if (!now.has(id)) yield { model: id, event: "model_remove" };
  if ([...now.keys()].some((id) => !before.has(id))) yield { model: "*", event: "models_reload" };
  for (const [model, { status }] of now) {
    const last = before.get(model)?.status;
    if (JSON.stringify(last) === JSON.stringify(status)) continue;
    const { value, args: _args, progress, ...failure } = status;
    const wasDownloading = last?.value === "downloading";
    if (value === "downloading" && wasDownloading) {
      yield { model, event: "download_progress", data: progress };
      continue;
    }
    if (wasDownloading) yield { model, event: failure.failed === true ? "download_failed" : "download_finished" };
    const data = { status: value, ...failure, ...(progress === undefined ? {} : { progress }) };
    yield { model, event: "model_status", data };
  }
}
