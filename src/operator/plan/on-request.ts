import type { FailedRef } from "../../api/on-request.ts";
import { findCondition } from "../../api/conditions.ts";
import type { SlotSpec } from "../../api/slot.ts";
import { isAvailable } from "../../api/states.ts";
import { chooseModel, type ModelChoice, type ModelDemand, type Residence } from "./choose-model.ts";
import { at, isFromAhead, requestOf, type SlotInput } from "./input.ts";
import { changed, unloadingSince } from "./unloading.ts";

/** The transition of a slot whose loaded model leaves for another one that requests name. */
export const swappingReason = "Swapping";

const defaultMaxWaitSeconds = 60;
const defaultMinResidencySeconds = 10;

export type ChoiceInput = Pick<SlotInput, "spec" | "specHash" | "requests" | "before" | "observed" | "demand" | "now">;

/** All models that a request may name; undefined for a slot whose model requests do not choose. */
export function refsOf(spec: SlotSpec | undefined, usual: string | undefined): readonly string[] | undefined {
  if (spec === undefined || spec.model.onRequest.length === 0) return undefined;
  return [...new Set([...(usual === undefined ? [] : [usual]), ...spec.model.onRequest])];
}

/**
 * The model that the slot holds from now on. `usual`: the model of its manifest, or of a person's swap. A person's swap,
 * load or edit takes effect at once; after it, requests choose again.
 */
export function onRequestOf(input: ChoiceInput, usual: string | undefined): ModelChoice | undefined {
  const refs = refsOf(input.spec, usual);
  const [first] = refs ?? [];
  if (refs === undefined || first === undefined) return undefined;
  const named = usual ?? first;
  const { before, spec, now } = input;
  const known = before?.status.onRequest;
  const failed = failuresInForce(input, refs);
  const result = (chosen: string, more: Pick<ModelChoice, "reason" | "requeueMs"> = {}): ModelChoice => ({
    usual: named,
    refs: [...refs],
    chosen,
    since: known?.chosen === chosen ? known.since : now.toISOString(),
    failed,
    ...more,
  });
  const ordered = orderedRef(input, refs, named);
  if (ordered !== undefined) return result(ordered);
  const held = before?.status.model.ref;
  const last = known?.chosen ?? (input.observed.length > 0 ? held : undefined);
  const chosen = last !== undefined && refs.includes(last) ? last : named;
  const choice = chooseModel({
    refs,
    chosen,
    residence: residenceOf(input, chosen),
    isFetching: before?.plan.reason === "Pulling",
    isFailing: known?.chosen === chosen && isFailing(input, chosen),
    isOrdered: requestOf(input, "load")?.model === chosen,
    demand: demandOf(input),
    barredMs: new Map(failed.flatMap(({ ref, retryAt }) => (ref === chosen ? [] : barred(ref, retryAt, now)))),
    maxWaitMs: (spec?.model.maxWaitSeconds ?? defaultMaxWaitSeconds) * 1000,
    minResidencyMs: (spec?.model.minResidencySeconds ?? defaultMinResidencySeconds) * 1000,
  });
  const { reason, requeueMs } = choice;
  return result(choice.ref, {
    ...(reason === undefined ? {} : { reason }),
    ...(requeueMs === undefined ? {} : { requeueMs }),
  });
}

function barred(ref: string, retryAt: string, now: Date): [string, number][] {
  const ms = at(retryAt) - now.getTime();
  return ms > 0 ? [[ref, ms]] : [];
}

/** The model that a person has asked for since the last status; undefined where nobody has. */
function orderedRef({ requests, before }: ChoiceInput, refs: readonly string[], usual: string): string | undefined {
  const handled = before?.status.handledRequests ?? {};
  const isNew = (kind: "swap-model" | "load"): boolean =>
    requests.some((request) => request.kind === kind && handled[kind] !== request.token);
  const load = requestOf({ requests }, "load");
  if (isNew("load") && load?.model !== undefined && refs.includes(load.model)) return load.model;
  const known = before?.status.onRequest?.usual;
  return isNew("swap-model") || (known !== undefined && known !== usual) ? usual : undefined;
}

function residenceOf({ before, observed, demand, now }: ChoiceInput, chosen: string): Residence {
  const { state = "offline", model, readySince } = before?.status ?? {};
  const isRunning = observed.some(({ role, phase }) => role === "main" && phase === "running");
  const ref = model?.ref ?? chosen;
  if (state === "unloading") {
    // A model that was stopped for the chosen one is followed by it, whatever else is requested meanwhile.
    const why = unloadingSince({ before })?.reason;
    return isRunning || why === swappingReason || why === changed ? { phase: "leaving", ref } : { phase: "none" };
  }
  if (isAvailable(state) && isRunning) {
    const since = at(readySince);
    const readyMs = isFromAhead(since, now) ? Infinity : now.getTime() - since;
    const wasUsed = demand.inFlight > 0 || at(demand.lastByteAt) >= since;
    return { phase: "ready", ref, readyMs, wasUsed };
  }
  const isComing = state === "starting" || state === "warming" || isAvailable(state);
  return isRunning || isComing ? { phase: "loading", ref } : { phase: "none" };
}

/** The chosen model could not be loaded, or something is in its way. */
function isFailing({ before }: ChoiceInput, chosen: string): boolean {
  if (before === undefined) return false;
  const { state, model, conditions } = before.status;
  if (state === "error") return true;
  const isOther = isAvailable(state) && model.ref !== chosen;
  return isOther && findCondition(conditions, "Ready")?.status === "False";
}

function demandOf({ demand, now }: ChoiceInput): ReadonlyMap<string, ModelDemand> {
  const found = new Map<string, ModelDemand>();
  for (const [ref, { held, inFlight, waitingSince }] of demand.byRef) {
    const waitedMs = waitingSince === undefined ? 0 : Math.max(0, now.getTime() - waitingSince.getTime());
    found.set(ref, { held, inFlight, waitedMs });
  }
  return found;
}

/** Failures from before an edit, a clock that was set back, or a request to load or restart the slot, count no more. */
function failuresInForce(
  { before, specHash, requests, now }: ChoiceInput,
  refs: readonly string[],
): readonly FailedRef[] {
  const failed = before?.status.onRequest?.failed ?? [];
  if (failed.length === 0 || before?.specHash !== specHash) return [];
  const requested = [requestOf({ requests }, "restart"), requestOf({ requests }, "load")];
  const requestedAt = Math.max(...requested.map((request) => at(request?.requestedAt)));
  return failed.filter(
    (each) => refs.includes(each.ref) && at(each.at) >= requestedAt && !isFromAhead(at(each.at), now),
  );
}
