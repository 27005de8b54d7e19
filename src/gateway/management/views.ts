import { chatFault, type ModelRecord } from "../../api/model.ts";
import { choiceViewSchema } from "../../api/management/choice-view.ts";
import {
  modelViewSchema,
  slotViewSchema,
  type ModelView,
  type PlanView,
  type SlotDetail,
  type SlotView,
} from "../../api/management/views.ts";
import { withoutSignatures } from "../../api/masked-text.ts";
import { maskedPlan, maskedSpec } from "../../api/masked.ts";
import { findCondition } from "../../api/conditions.ts";
import { duration } from "../../api/duration.ts";
import { processIn, type Step } from "../../api/plan.ts";
import { resourceKey, type ResourceStatus } from "../../api/resource-status.ts";
import { isAvailable } from "../../api/states.ts";
import { residentBytes } from "../../lib/resident-memory.ts";
import { holdersOf, type KnownSlot, type ResolutionIndex } from "../routing/index.ts";
import type { Admission } from "../slots/admission.ts";
import { slotConditions } from "../slots/availability.ts";
import { emptyStatus, type SlotStatus } from "../../api/status.ts";
import type { Traffic } from "../slots/traffic.ts";
import { lastOfModel, loadSecondsOf } from "./benchmark-views.ts";
import { viewFrom } from "./view-from.ts";

/** Bodies of `/v1/models` and `/api`: snake_case JSON, as in CONTRACT. */
export interface ViewContext {
  readonly index: ResolutionIndex;
  readonly traffic: Traffic;
  readonly admission: Admission;
  readonly isOperatorLost: boolean;
}

/** A slot as a row of the list. */
export function slotView(slot: KnownSlot, context: ViewContext): SlotView {
  const { status } = slot;
  return {
    ...steadyView(slot, context),
    // The figures of a lost operator are out of date.
    memory_bytes: context.isOperatorLost ? null : memoryOf(status?.processes ?? []),
    uptime_seconds: status?.readySince === undefined ? null : secondsSince(Date.parse(status.readySince)),
  };
}

const rowOf = viewFrom(slotViewSchema.omit({ memory_bytes: true, uptime_seconds: true }));

/** A slot as a row of the list, without the figures that change continuously: no file of a process is read. */
export function steadyView(
  slot: KnownSlot,
  { traffic, admission, isOperatorLost }: ViewContext,
): Omit<SlotView, "memory_bytes" | "uptime_seconds"> {
  const { spec, status = emptyStatus, published, name } = slot;
  const waiting = admission.counts(name);
  const elsewhere = traffic.elsewhere(name);
  const state = traffic.stateOf(slot);
  // Requests wait in a queue where an engine answers, and are held where none does.
  const isAnswered = isAvailable(state);
  return rowOf({
    ...status,
    name,
    state: isAnswered && elsewhere.inFlight > 0 ? "serving" : state,
    model: status.model.ref ?? spec.model.default,
    modelOrigin: status.model.origin,
    engine: spec.engine,
    backend: status.backend ?? spec.backend,
    runtime: status.runtime ?? spec.runtime,
    enabled: spec.enabled,
    load: spec.load,
    inFlight: traffic.inFlight(name) + elsewhere.inFlight,
    queued: waiting.queued + (isAnswered ? elsewhere.held : 0),
    held: waiting.held + (isAnswered ? 0 : elsewhere.held),
    conditions: slotConditions(status.conditions, isOperatorLost),
    generation: published?.generation ?? 0,
    specHash: published?.specHash,
    recentFailures: recentFailures(status.transitions),
    lastLoadSeconds: loadSecondsOf(status.lastLoad),
    compute: status.compute === undefined ? null : { ...status.compute, buffers: status.compute.buffers ?? [] },
    // The figures of a lost operator are out of date.
    memory: isOperatorLost ? null : status.memory,
    file: published?.file,
  });
}

/** Whole seconds; 0 where the clock was set back since. */
export function secondsSince(ms: number): number {
  return Math.max(0, Math.floor((Date.now() - ms) / 1000));
}

const choiceOf = viewFrom(choiceViewSchema);

/** A slot with its history, for one slot only. `isMasked`: for a caller below admin. */
export function slotDetail(slot: KnownSlot, context: ViewContext, { isMasked = false } = {}): SlotDetail {
  const spec = isMasked ? maskedSpec(slot.spec) : slot.spec;
  return {
    ...slotView(slot, context),
    on_request: slot.status?.onRequest === undefined ? null : choiceOf(slot.status.onRequest),
    transitions: slot.status?.transitions ?? [],
    spec,
  };
}

const recentMs = 86_400_000;

function recentFailures(transitions: SlotStatus["transitions"]): SlotView["recent_failures"] {
  const since = new Date(Date.now() - recentMs).toISOString();
  const failures = transitions.filter(({ to, at }) => to === "error" && at >= since);
  const [first, last] = [failures[0], failures.at(-1)];
  if (first === undefined || last === undefined) return null;
  return { count: failures.length, since: first.at, time: last.at, reason: last.reason, message: last.message };
}

/** The sum over all processes with a known figure; null without any, such as for containers. */
function memoryOf(processes: SlotStatus["processes"]): number | null {
  const known = processes.flatMap(({ pid, startedAt }) =>
    pid === undefined || startedAt === undefined ? [] : (residentBytes(pid, new Date(startedAt)) ?? []),
  );
  return known.length === 0 ? null : known.reduce((sum, bytes) => sum + bytes, 0);
}

/** The operator's next steps for a slot, also as text for a person. `isMasked`: for a caller below admin. */
export function planView(
  { name, published }: Pick<KnownSlot, "name" | "published">,
  { now = Date.now(), isMasked = false } = {},
): PlanView {
  const whole = published?.plan ?? {
    reason: "NotPublished",
    message: "no operator has planned this slot yet",
    steps: [],
  };
  const plan = isMasked ? maskedPlan(whole) : whole;
  const lines = plan.steps.map((step, index) => {
    const what = [step.do, processIn(step)].filter((word) => word !== undefined).join(" ");
    return `  ${index + 1}. ${what}: ${step.reason}${detailOf(step, now)}`;
  });
  const text = [`${name}: ${plan.reason}: ${plan.message}`, ...(lines.length === 0 ? ["  nothing to do"] : lines)].join(
    "\n",
  );
  return { slot: name, plan, text: `${text}\n` };
}

function detailOf(step: Step, now: number): string {
  const left = (until: string): string => duration(Math.max(0, Math.ceil((Date.parse(until) - now) / 1000)));
  if (step.do === "start") return `\n     ${step.command}`;
  if (step.do === "drain") return step.deadline === undefined ? "" : `, at most ${left(step.deadline)} more`;
  return step.do === "wait" && step.until !== undefined ? ` in ${left(step.until)}` : "";
}

/** Every model of the registry, then declared models that were never valid. */
export function modelViews(index: ResolutionIndex): ModelView[] {
  const recorded = namesWithRecord(index);
  const neverValid = [...index.resources.values()].filter(({ kind, name }) => kind === "Model" && !recorded.has(name));
  return [...[...index.models.values()].map((model) => modelView(model, index)), ...neverValid.map(nothingOf)];
}

/** The model of that ref, or the declared one of that name that was never valid. */
export function modelViewNamed(index: ResolutionIndex, ref: string): ModelView | undefined {
  const model = index.models.get(ref);
  if (model !== undefined) return modelView(model, index);
  const resource = index.resources.get(resourceKey({ kind: "Model", name: ref }));
  return resource === undefined || namesWithRecord(index).has(ref) ? undefined : nothingOf(resource);
}

/** The names of Models that have a record. A file is the subject of a broken manifest that has its ref as a name, too. */
function namesWithRecord({ models }: ResolutionIndex): ReadonlySet<string> {
  const declared = [...models.values()].flatMap(({ origin, name }) => (origin === "manifest" ? (name ?? []) : []));
  return new Set([...models.keys(), ...declared]);
}

const modelOf = viewFrom(modelViewSchema);

/** The view of a Model whose manifest gives no record. */
function nothingOf({ name, file, conditions }: ResourceStatus): ModelView {
  const message = findCondition(conditions, "Ready")?.message ?? null;
  const nothing = { capabilities: [], source: "", slots: [], origin: "manifest" } as const;
  const untold: Partial<Parameters<typeof modelOf>[0]> = {};
  return modelOf({ ...untold, ...nothing, id: name, state: "invalid", message, file, conditions });
}

/** A model of the registry, with the slots that hold it. */
export function modelView(model: ModelRecord, index: ResolutionIndex): ModelView {
  const owners = holdersOf(index, model);
  const slots = owners.map(({ name }) => name);
  // Of several slots that hold it, a running one names the backend.
  const owner = owners.find(({ status }) => (status?.processes.length ?? 0) > 0) ?? owners[0];
  const declared = index.resources.get(resourceKey({ kind: "Model", name: model.name ?? model.ref }));
  return modelOf({
    ...model,
    id: model.ref,
    backend: owner?.status?.backend,
    source: withoutSignatures(model.source),
    slots,
    lastBenchmark: lastOfModel(index.slots.values(), model.ref),
    state: slots.length > 0 && model.state === "available" ? "assigned" : model.state,
    message: model.message ?? chatFault(model),
    file: declared?.file,
    conditions: declared?.conditions ?? [],
  });
}
