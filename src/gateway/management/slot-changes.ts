import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../../api/errors.ts";
import type { SlotDetail } from "../../api/management/views.ts";
import { isBuiltin } from "../../api/names.ts";
import { invalidRequest } from "../../api/problems.ts";
import { completeSlot, slotSpecSchema } from "../../api/slot.ts";
import type { RequestKind } from "../../api/status.ts";
import { invalidSpec } from "../slots/availability.ts";
import type { KnownSlot } from "../routing/index.ts";
import { slotNamed, viewOf, type ManagementContext } from "./context.ts";
import { guardExecFields, writeJudged } from "./exec-fields.ts";
import { checkName, readManifest } from "./manifest-body.ts";
import { refreshIfAbsent } from "./model-handlers.ts";
import { checkSwap, checkWork } from "./slot-checks.ts";
import { checkFit } from "./slot-fit.ts";
import { slotDetail } from "./views.ts";
import { operatorGraceMs, settled, waitForOperator, type WaitQuery } from "./wait.ts";

type ManifestBody = Readonly<Record<string, unknown>>;

/** A restart, load, unload or swap as the API accepts it. */
interface WantedChange {
  readonly kind: RequestKind;
  readonly model?: string | undefined;
  readonly reset?: boolean | undefined;
  /** Write the change into the manifest as well. */
  readonly write?: boolean | undefined;
}

/** How a caller recognises that the operator has handled the request, and the source of hints to check again. */
interface Confirmation {
  readonly isSeen: (slot: KnownSlot) => boolean;
  /** The slot existed when the request came: once it is gone there is nothing to wait for. */
  readonly isKnown?: boolean;
  /** The answer tells the state under the new manifest even without a wait: a built-in slot has another one before. */
  readonly isNew?: boolean;
  readonly watch: (onChange: () => void) => Disposable;
}

/** Sends the operator a request that is no spec, and answers with the slot's state after it. */
export async function changeSlot(
  context: ManagementContext,
  name: string,
  { kind, model, reset, write }: WantedChange,
  query: WaitQuery,
  { raw: client, identity }: Pick<FastifyRequest, "raw" | "identity">,
): Promise<SlotDetail> {
  const slot = slotNamed(context, name);
  if (model !== undefined) await refreshIfAbsent(context, model);
  if (kind === "swap-model") checkSwap(context, slot, model, reset === true);
  if (write === true && model === undefined)
    throw invalidRequest([{ path: ["write"], message: "needs a model: the manifest already says what it says" }]);
  const invalid = invalidManifest(slot);
  if (invalid !== undefined) throw invalid;
  if (!slot.spec.enabled) throw disabled(slot);
  if (isLeaving(slot) && (await context.writer.specHash("Slot", name)) === undefined) throw leaving(slot);
  if (kind === "swap-model" && model !== undefined) {
    await checkFit(context, name, { ...slot.spec, model: { ...slot.spec.model, default: model } });
  }
  if (write === true && model !== undefined) {
    await context.writer.set("Slot", name, ["model", "default"], model);
    // A temporary swap must not take precedence over the value that is now in the manifest.
    await context.requests.remove(name, "swap-model");
    const isSeen = (now: KnownSlot): boolean => now.status?.model.ref === model;
    return await answered(context, name, query, client, { isSeen, isKnown: true, watch: context.watch });
  }
  const token = randomUUID();
  await context.requests.put({
    schema: 1,
    slot: name,
    kind,
    token,
    specHash: slot.published?.specHash ?? "",
    requestedAt: new Date().toISOString(),
    ...(identity === undefined || identity.source === "none" ? {} : { requestedBy: identity.identity }),
    ...((kind === "swap-model" || kind === "load") && reset !== true && model !== undefined ? { model } : {}),
    ...(slot.spec.model.default === undefined ? {} : { specModel: slot.spec.model.default }),
  });
  return await answered(context, name, query, client, takenUp(context, name, kind, token));
}

/** The failure of a change of a disabled slot. */
export function disabled({ name, published }: KnownSlot): ApiError {
  const isConfigured = !isBuiltin(name) || published?.file !== undefined;
  return new ApiError("slot.disabled", {
    status: 409,
    message: `slot ${name} is disabled: ${isConfigured ? "its manifest says so" : "no manifest configures it"}`,
    details: { slot: name, state: "offline", reason: isConfigured ? "Disabled" : "NotConfigured" },
  });
}

/** Whether the operator is ending the slot because its manifest was gone; a new manifest may exist by now. */
function isLeaving({ published }: KnownSlot): boolean {
  return published?.plan.reason === "Deleted";
}

/** The failure of a change of a slot whose manifest is gone. */
function leaving({ name, status }: KnownSlot): ApiError {
  return new ApiError("slot.illegal_transition", {
    message: `slot ${name} is deleted and on its way out`,
    details: { slot: name, state: status?.state ?? "offline", reason: "Deleted" },
  });
}

/**
 * Whether the operator has handled the request, or the one that has replaced it meanwhile: there is one per kind, and a
 * client whose request was replaced would wait for ever.
 */
function takenUp({ requests, watch }: ManagementContext, name: string, kind: RequestKind, token: string): Confirmation {
  let awaited = token;
  const isSeen = ({ status }: KnownSlot): boolean => {
    if (status?.handledRequests[kind] === awaited) return true;
    awaited = requests.list(name).find((request) => request.kind === kind)?.token ?? awaited;
    return status?.handledRequests[kind] === awaited;
  };
  return {
    isSeen,
    isKnown: true,
    watch(onChange) {
      const both = new DisposableStack();
      both.use(watch(onChange));
      both.use(requests.watch(onChange));
      return both;
    },
  };
}

/** A manifest that was never valid has no spec to act on: the slot is published as disabled. */
function invalidManifest({ status, spec }: KnownSlot): ApiError | undefined {
  const invalid = spec.enabled || status === undefined ? undefined : invalidSpec(status);
  if (invalid === undefined) return undefined;
  return new ApiError("config.invalid", { message: invalid.message, details: { path: [], message: invalid.message } });
}

/** Writes a new manifest, and waits if the query says so. Throws ApiError. */
export async function createSlot(
  context: ManagementContext,
  body: ManifestBody,
  query: WaitQuery,
  client: IncomingMessage,
): Promise<SlotDetail> {
  const { name, spec, labels } = readManifest("Slot", body, undefined);
  if (name === undefined) throw invalidRequest([{ path: ["name"], message: "is required" }]);
  checkName(name);
  checkWork(context, name, spec);
  await checkFit(context, name, spec);
  const known = context.index().slots.get(name);
  // The engine of a slot that is deleted would be the new slot's, as after an edit.
  if (known !== undefined && isLeaving(known) && (await context.writer.specHash("Slot", name)) === undefined)
    throw leaving(known);
  guardExecFields(spec, {}, { isAllowed: context.config.apiExec, file: `slots/${name}.toml` });
  const { specHash } = await context.writer.create("Slot", name, { spec, labels });
  return await written(context, name, specHash, query, client, { isNew: true });
}

/** Writes the manifest of a slot, new (201) or not (202), and waits if the query says so. Throws ApiError. */
export async function putSlot(
  context: ManagementContext,
  name: string,
  body: ManifestBody,
  query: WaitQuery,
  { reply, request }: { reply: FastifyReply; request: IncomingMessage },
): Promise<SlotDetail> {
  checkName(name);
  const { spec, labels } = readManifest("Slot", body, name);
  checkWork(context, name, spec);
  await checkFit(context, name, spec);
  const isAllowed = context.config.apiExec;
  const { outcome, specHash } = await writeJudged(context.writer, "Slot", name, { spec, labels }, (before, file) =>
    guardExecFields({ ...completeSlot(name, slotSpecSchema.parse(spec)) }, before, { isAllowed, file }),
  );
  void reply.code(outcome === "created" ? 201 : 202);
  return await written(context, name, specHash, query, request);
}

/** Gives the manifest of a slot this text, under the rules of `putSlot`. Throws ApiError. */
export async function putSlotText(
  context: ManagementContext,
  name: string,
  { text, hash }: { readonly text: string; readonly hash: string },
  query: WaitQuery,
  client: IncomingMessage,
): Promise<SlotDetail> {
  const { writer, config } = context;
  slotNamed(context, name);
  const spec = await writer.specOf("Slot", name, text);
  checkWork(context, name, spec);
  await checkFit(context, name, spec);
  const before = await writer.source("Slot", name);
  // `writeSource` refuses where the text has another hash: what is written over has been judged.
  if (before?.hash === hash) guardExecFields(spec, before.spec, { isAllowed: config.apiExec, file: before.file });
  await writer.writeSource("Slot", name, { text, hash });
  return await written(context, name, await writer.specHash("Slot", name), query, client);
}

/**
 * Removes a slot's manifest; answers with the slot's last state, once a living operator has begun to end the slot: a request
 * that follows finds a slot that is being deleted. Throws ApiError.
 */
export async function deleteSlot(
  context: ManagementContext,
  name: string,
  client: IncomingMessage,
): Promise<SlotDetail> {
  const slot = slotNamed(context, name);
  if (isBuiltin(name)) {
    throw new ApiError("slot.builtin", { message: `${name} is built in and cannot be deleted; disable it instead` });
  }
  const detail = slotDetail(slot, viewOf(context));
  if (!(await context.writer.remove("Slot", name, { isKnown: !isLeaving(slot) }))) throw leaving(slot);
  const hasBegun = (): boolean => {
    const known = context.index().slots.get(name);
    return known === undefined || isLeaving(known);
  };
  const { watch, stopping, operatorLiveness: liveness } = context;
  await waitForOperator(hasBegun, { watch, timeoutMs: seenMs, client, stopping, liveness, graceMs: 0 });
  return detail;
}

/** The operator reads what was just written within seconds. */
const seenMs = 2000;

/**
 * The slot with the hash of the written spec: `?wait` waits until the operator has published that (DECISIONS 15), or a
 * later one that has replaced it.
 */
async function written(
  context: ManagementContext,
  name: string,
  specHash: string | undefined,
  query: WaitQuery,
  client: IncomingMessage,
  { isNew = false }: Pick<Confirmation, "isNew"> = {},
): Promise<SlotDetail> {
  const { index, writer } = context;
  let awaited = specHash;
  let before = index().slots.get(name)?.published?.specHash;
  const isSeen = ({ published }: KnownSlot): boolean => published?.specHash === awaited;
  const watch = (onChange: () => void): Disposable =>
    context.watch(() => {
      onChange();
      const published = index().slots.get(name)?.published?.specHash;
      if (published === before || published === awaited) return;
      before = published;
      writer.specHash("Slot", name).then(
        (now) => {
          awaited = now;
          onChange();
        },
        () => undefined,
      );
    });
  const slot = await answered(context, name, query, client, { isSeen, watch, isNew });
  return { ...slot, spec_hash: specHash ?? slot.spec_hash };
}

/** The slot at once, or, with a wait, once it has settled under the requested change or no operator lives any more. */
async function answered(
  context: ManagementContext,
  name: string,
  query: WaitQuery,
  client: IncomingMessage,
  { isSeen, watch, isKnown = false, isNew = false }: Confirmation,
): Promise<SlotDetail> {
  const timeoutMs = query.wait === undefined ? seenMs : query.timeout * 1000;
  const isOver =
    query.wait === undefined
      ? (slot: KnownSlot | undefined) => slot !== undefined && (!isNew || isSeen(slot))
      : (slot: KnownSlot | undefined) => (slot === undefined ? isKnown : isSeen(slot) && settled(slot));
  await waitForOperator(() => isOver(context.index().slots.get(name)), {
    watch,
    timeoutMs,
    client,
    stopping: context.stopping,
    liveness: context.operatorLiveness,
    graceMs: operatorGraceMs,
  });
  const slot = context.index().slots.get(name);
  // Deleted meanwhile: the request will never be handled.
  if (slot === undefined && isKnown) return slotDetail(slotNamed(context, name), viewOf(context));
  if (slot === undefined) {
    throw new ApiError("slot.not_ready", {
      message: `${name} is written; no operator has handled it yet`,
      details: { slot: name, state: "offline", reason: "OperatorLost" },
      headers: { "retry-after": "2" },
    });
  }
  return slotDetail(slot, viewOf(context));
}
