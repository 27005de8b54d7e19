import { ApiError } from "../../api/errors.ts";
import { slotsInOrder } from "../routing/index.ts";
import type { Handlers } from "./api-server.ts";
import { keepBenchmark } from "./benchmarks.ts";
import { mayAdminister, slotNamed, viewOf, type ManagementContext } from "./context.ts";
import { sendLogs } from "./logs.ts";
import { changeSlot, createSlot, deleteSlot, putSlot, putSlotText } from "./slot-changes.ts";
import { planView, slotDetail, slotView } from "./views.ts";

type SlotHandlers = Pick<
  Handlers,
  | "listSlots"
  | "getSlot"
  | "createSlot"
  | "putSlot"
  | "deleteSlot"
  | "getManifest"
  | "putManifest"
  | "planSlot"
  | "loadSlot"
  | "unloadSlot"
  | "restartSlot"
  | "swapSlot"
  | "keepBenchmark"
  | "slotLogs"
  | "assignModel"
>;

/** Handlers of slots: their state, and changes to them. */
export function slotHandlers(context: ManagementContext): SlotHandlers {
  return {
    listSlots: () => {
      const view = viewOf(context);
      return { object: "list", data: slotsInOrder(view.index).map((slot) => slotView(slot, view)) };
    },
    getSlot: async ({ params: { name = "" }, request }) => {
      const slot = slotNamed(context, name);
      const draws = await context.drawings.of(slot);
      return { ...slotDetail(slot, viewOf(context), { isMasked: !mayAdminister(request) }), draws };
    },
    planSlot: ({ params: { name = "" }, request }) =>
      planView(slotNamed(context, name), { isMasked: !mayAdminister(request) }),
    createSlot: async ({ body, query, request }) => await createSlot(context, body, query, request.raw),
    putSlot: async ({ params: { name = "" }, body, query, reply, request }) =>
      await putSlot(context, name, body, query, { reply, request: request.raw }),
    getManifest: async ({ params: { name = "" } }) => {
      const source = await context.writer.source("Slot", slotNamed(context, name).name);
      if (source === undefined) throw new ApiError("slot.not_found", { message: `${name} has no manifest` });
      const { spec: _spec, ...shown } = source;
      return { ...shown, read_only: (await context.writer.readOnlyReason()) ?? null };
    },
    putManifest: async ({ params: { name = "" }, body, query, request }) =>
      await putSlotText(context, name, body, query, request.raw),
    deleteSlot: async ({ request, params: { name = "" } }) => await deleteSlot(context, name, request.raw),
    loadSlot: async ({ params: { name = "" }, query, request }) =>
      await changeSlot(context, name, { kind: "load" }, query, request),
    unloadSlot: async ({ params: { name = "" }, query, request }) =>
      await changeSlot(context, name, { kind: "unload" }, query, request),
    restartSlot: async ({ params: { name = "" }, query, request }) =>
      await changeSlot(context, name, { kind: "restart" }, query, request),
    swapSlot: async ({ params: { name = "" }, body, query, request }) =>
      await changeSlot(context, name, { kind: "swap-model", ...body }, query, request),
    keepBenchmark: async ({ params: { name = "" }, body }) => await keepBenchmark(context, name, body),
    assignModel: async ({ params: { ref = "" }, body, query, request }) =>
      await changeSlot(context, body.slot, { kind: "swap-model", model: ref }, query, request),
    slotLogs: async ({ params: { name = "" }, query, reply }) =>
      await sendLogs(reply, context, slotNamed(context, name), query),
  };
}
