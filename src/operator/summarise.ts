import { describeDiagnostics } from "../api/diagnostic.ts";
import { nextConditions, type ConditionClaim } from "../api/conditions.ts";
import type { EngineProtocol, ProcessRole, SlotCapability } from "../api/names.ts";
import type { Plan } from "../api/plan.ts";
import { slotSpecSchema, completeSlot } from "../api/slot.ts";
import { emptyStatus, transitionLimit, type PublishedSlot, type SlotStatus, type Transition } from "../api/status.ts";
import { computeClaims, reportOf } from "./compute.ts";
import { backoffMs, type Backoff } from "./queue.ts";
import { failuresInForce } from "./facts.ts";
import { steadyMs } from "./failing.ts";
import { decisionsOf, imageOf, protocolsOf } from "./derived.ts";
import { at, type SlotInput } from "./input.ts";
import { isRefusal } from "../engines/engine.ts";
import { silentReason, silentUntil } from "./silent.ts";
import { claimsOf, type Verdict } from "./verdict.ts";
import { idleSince } from "./wanted.ts";

/** What acting has brought about, beyond the input that the verdict was made from. */
export interface Outcome {
  /** A new look at the processes when something was started or stopped; else those of the input. */
  readonly observed: SlotInput["observed"];
  readonly health: SlotInput["health"];
  /** Roles that are to be stopped. */
  readonly stopping: readonly ProcessRole[];
  /** Roles started now. */
  readonly started: number;
  readonly capabilities: readonly SlotCapability[];
  readonly protocols: readonly EngineProtocol[];
  readonly served: string | undefined;
  readonly handledRequests: Readonly<Record<string, string>>;
}

/**
 * The status that follows from what was decided and what acting brought about. Pure; the caller writes it when it
 * differs from the one before. `revision` is that of the input: the writer raises it.
 */
export function summarise(input: SlotInput, verdict: Verdict, outcome: Outcome, backoff: Backoff): PublishedSlot {
  const before = input.before?.status ?? emptyStatus;
  const generation = generationOf(input);
  const failures = countFailures(input, verdict);
  const state = verdict.state;
  const transitions = moved(before, verdict, input.now);
  const isLoaded = state === "ready";
  const running = outcome.observed.filter(({ phase }) => phase === "running");
  // Starts that follow a failure; others somebody has asked for.
  const restarted = failuresInForce(input) > 0 ? outcome.started : 0;
  const restarts = before.restarts + restarted;
  const readySince = isLoaded ? (before.readySince ?? input.now.toISOString()) : undefined;
  const idle = idleSince(input);
  const spec = input.spec ?? completeSlot(input.name, slotSpecSchema.parse({ enabled: false }));
  const status: SlotStatus = {
    state,
    conditions: nextConditions(before.conditions, claimsFor(input, verdict), generation, input.now),
    observedGeneration: generation,
    model: modelOf(input, before, outcome, running.length > 0),
    capabilities: [...outcome.capabilities],
    protocols: protocolsOf(before, outcome),
    runtime: input.runtime,
    backend: input.backend ?? (spec.backend === "auto" ? "cpu" : spec.backend),
    decisions: decisionsOf(input, before, running.length > 0),
    ...(running.length > 0 ? reportOf(input) : {}),
    ...endpointOf(input, outcome),
    processes: running.map((process) => ({
      role: process.role,
      port: process.port,
      endpoint: `http://127.0.0.1:${process.port}`,
      ...process.id,
      isReady: isReady(process.role, state, outcome),
      startedAt: process.startedAt.toISOString(),
    })),
    ...hashOf(running),
    ...(running.length > 0 ? imageOf(input) : {}),
    ...(input.missing?.state === "fetching" ? { progress: { ...input.missing.progress } } : {}),
    restarts,
    failures: failures.count,
    ...(failures.lastError === undefined ? {} : { lastError: failures.lastError }),
    ...retryOf(input, verdict, failures, backoff),
    ...loadOf(input, before, verdict, outcome),
    ...(readySince === undefined ? {} : { readySince }),
    ...(idle === undefined ? {} : { idleSince: idle }),
    aliases: spec.aliases.filter((alias) => !input.conflicts.aliases.some((lost) => lost.alias === alias)),
    handledRequests: { ...outcome.handledRequests },
    transitions,
    counters: {
      transitions:
        transitions === before.transitions
          ? before.counters.transitions
          : { ...before.counters.transitions, [state]: (before.counters.transitions[state] ?? 0) + 1 },
      restarts: before.counters.restarts + restarted,
    },
  };
  return {
    schema: 1,
    name: input.name,
    revision: input.before?.revision ?? 1,
    generation,
    specHash: input.specHash,
    ...(input.file === undefined ? {} : { file: input.file }),
    labels: { ...input.labels },
    spec,
    status,
    plan: planOf(verdict),
    ...bearersOf(running),
  };
}

function planOf({ reason, message, steps }: Verdict): Plan {
  return { reason, message, steps: [...steps] };
}

/** For gateways: beside the status, which people are shown. */
function bearersOf(running: SlotInput["observed"]): Pick<PublishedSlot, "bearers"> {
  const found = running.flatMap(({ role, bearer }) => (bearer === undefined ? [] : [[role, bearer] as const]));
  return found.length === 0 ? {} : { bearers: Object.fromEntries(found) };
}

function generationOf(input: SlotInput): number {
  const { before } = input;
  if (before === undefined) return 1;
  return before.specHash === input.specHash ? before.generation : before.generation + 1;
}

/** What gateways may send to: not what they are asked to let go of. */
function isReady(role: ProcessRole, state: SlotStatus["state"], { health, stopping }: Outcome): boolean {
  const isOpen = role === "main" ? state === "ready" : state !== "unloading";
  return isOpen && health[role]?.isWarm === true && !stopping.includes(role);
}

function claimsFor(input: SlotInput, verdict: Verdict): ConditionClaim[] {
  let claims = claimsOf(verdict);
  if (input.diagnostics.length > 0 && input.spec !== undefined) {
    // The last good spec stays in force; whatever else is true, a person must mend the manifest.
    const message = describeDiagnostics(input.diagnostics);
    claims = claims
      .filter(({ type }) => type !== "Reconciling" && type !== "Stalled")
      .map((claim) =>
        claim.type === "Ready" ? { ...claim, status: "False" as const, reason: "InvalidSpec", message } : claim,
      );
    claims.push({ type: "Stalled", status: "True", reason: "InvalidSpec", message });
  }
  if (input.conflicts.aliases.length > 0) {
    const message = input.conflicts.aliases.map(({ alias, holder }) => `${alias} belongs to ${holder}`).join("; ");
    claims.push({ type: "NameConflict", status: "True", reason: "NameConflict", message });
  }
  const loadedPrint = input.before?.status.decisions["modelFingerprint"]?.value;
  const isRunning = input.observed.some(({ phase }) => phase === "running");
  if (
    isRunning &&
    loadedPrint !== undefined &&
    input.model?.fingerprint !== undefined &&
    input.model.fingerprint !== loadedPrint
  ) {
    const message = "the model's file was replaced after it was loaded; a restart loads the new one";
    claims.push({ type: "ModelChanged", status: "True", reason: "ModelChanged", message });
  }
  if (isRunning) claims.push(...computeClaims(input));
  return claims;
}

interface Failures {
  readonly count: number;
  readonly lastError: SlotStatus["lastError"];
}

function countFailures(input: SlotInput, verdict: Verdict): Failures {
  const before = input.before?.status;
  const inForce = failuresInForce(input);
  const error = { reason: verdict.reason, message: verdict.message.slice(0, 2000), time: input.now.toISOString() };
  if (verdict.failure !== undefined) return { count: verdict.failure.isSteady ? 1 : inForce + 1, lastError: error };
  const isNews = isTroubled[verdict.row] && before?.lastError?.message !== error.message;
  // What was got over is history: the transitions have it.
  if (isHistory(input, verdict)) return { count: 0, lastError: undefined };
  return { count: inForce, lastError: isNews ? error : before?.lastError };
}

/** Rows whose cause is an error; those beside it only go on after one. */
const isTroubled: Readonly<Record<Verdict["row"], boolean>> = {
  offline: false,
  paused: false,
  progressing: false,
  loaded: false,
  unloading: false,
  retrying: true,
  stalled: true,
  loadedProgressing: false,
  loadedRetrying: true,
  loadedStalled: true,
};

/** Earlier failures are: the slot and every process of it have been ready for long, or nobody wants the slot any more. */
function isHistory(input: SlotInput, { row, reason }: Verdict): boolean {
  if (row === "offline" && (reason === "NotConfigured" || reason === "Disabled")) return true;
  const readySince = input.before?.status.readySince;
  if (row !== "loaded" || readySince === undefined) return false;
  const youngest = Math.max(at(readySince), ...input.observed.map(({ startedAt }) => startedAt.getTime()));
  return input.now.getTime() - youngest >= steadyMs;
}

function retryOf(
  input: SlotInput,
  verdict: Verdict,
  failures: Failures,
  backoff: Backoff,
): Pick<SlotStatus, "nextRetryAt"> | undefined {
  if (verdict.failure !== undefined) {
    // What drains first is started again as soon as it has gone.
    if (verdict.failure.isTerminal || verdict.row === "unloading") return undefined;
    const delay = verdict.failure.isSteady ? 0 : backoffMs(failures.count, backoff);
    return { nextRetryAt: new Date(input.now.getTime() + delay).toISOString() };
  }
  if (verdict.reason === silentReason) return { nextRetryAt: silentUntil(input).toISOString() };
  if (input.missing?.state === "failed" && verdict.reason === input.missing.reason) {
    const { retryAt } = input.missing;
    return retryAt === undefined ? undefined : { nextRetryAt: retryAt.toISOString() };
  }
  const planned = input.before?.status.nextRetryAt;
  const isWaiting = verdict.row === "retrying" || verdict.row === "loadedRetrying";
  return isWaiting && planned !== undefined && failures.count > 0 ? { nextRetryAt: planned } : undefined;
}

function moved(before: SlotStatus, verdict: Verdict, now: Date): Transition[] {
  if (before.state === verdict.state) return before.transitions;
  const transition = {
    at: now.toISOString(),
    from: before.state,
    to: verdict.state,
    reason: verdict.reason,
    message: verdict.message.slice(0, 500),
  };
  return [...before.transitions, transition].slice(-transitionLimit);
}

function modelOf(input: SlotInput, before: SlotStatus, outcome: Outcome, isRunning: boolean): SlotStatus["model"] {
  const { ref, origin } = input.held;
  const declared = input.spec?.model.default;
  // While the old engine still runs, the slot holds what that engine holds.
  const isOldRunning =
    isRunning && before.model.ref !== undefined && before.workloadHash !== undefined && !isCurrent(input);
  const current = isOldRunning ? before.model.ref : ref;
  const previous = current === before.model.ref ? before.model.previous : before.model.ref;
  const served = isOldRunning ? before.model.served : outcome.served;
  return {
    ...(current === undefined ? {} : { ref: current }),
    origin,
    ...(declared === undefined || declared === current ? {} : { spec: declared }),
    ...(previous === undefined ? {} : { previous }),
    ...(served === undefined ? {} : { served }),
  };
}

/** What runs is what the spec asks for. */
function isCurrent(input: SlotInput): boolean {
  if (isRefusal(input.workloads)) return false;
  const { workloads } = input;
  return input.observed.every(
    ({ role, hash, phase }) =>
      phase === "exited" || workloads.some((workload) => workload.role === role && workload.hash === hash),
  );
}

function endpointOf(input: SlotInput, outcome: Outcome): Pick<SlotStatus, "endpoint" | "port"> {
  const main = outcome.observed.find(({ role, phase }) => role === "main" && phase === "running");
  if (main !== undefined) return { endpoint: `http://127.0.0.1:${main.port}`, port: main.port };
  return input.spec?.port === undefined ? {} : { port: input.spec.port };
}

function hashOf(running: SlotInput["observed"]): Pick<SlotStatus, "workloadHash"> {
  const main = running.find(({ role }) => role === "main") ?? running[0];
  return main === undefined ? {} : { workloadHash: main.hash };
}

/** Timings of the last load; seconds with millisecond precision. */
function loadOf(
  input: SlotInput,
  before: SlotStatus,
  verdict: Verdict,
  outcome: Outcome,
): Pick<SlotStatus, "lastLoad"> | undefined {
  const { now } = input;
  if (outcome.started > 0 && verdict.state === "starting") {
    const pulledAt =
      before.state === "pulling" ? before.transitions.findLast(({ to }) => to === "pulling")?.at : undefined;
    const pull = pulledAt === undefined ? {} : { pullSeconds: (now.getTime() - at(pulledAt)) / 1000 };
    return { lastLoad: { startedAt: now.toISOString(), ...pull } };
  }
  const load = before.lastLoad;
  if (load === undefined) return undefined;
  const startedAt = at(load.startedAt);
  const seconds = (fromMs: number): number => Math.max(0, Math.round(now.getTime() - fromMs) / 1000);
  if (verdict.state === "warming" && load.startSeconds === undefined) {
    return { lastLoad: { ...load, startSeconds: seconds(startedAt) } };
  }
  if (verdict.state === "ready" && load.warmSeconds === undefined) {
    const startSeconds = load.startSeconds ?? seconds(startedAt);
    return { lastLoad: { ...load, startSeconds, warmSeconds: seconds(startedAt + startSeconds * 1000) } };
  }
  return { lastLoad: load };
}
