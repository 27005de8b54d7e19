import { describeDiagnostics } from "../../api/diagnostic.ts";
import { nextConditions, type ConditionClaim } from "../../api/conditions.ts";
import { chatFault } from "../../api/model.ts";
import type { Plan } from "../../api/plan.ts";
import { compareProcesses, isSameProcess, processName } from "../../api/process-ref.ts";
import { unconfiguredSlot } from "../../api/slot.ts";
import {
  emptyStatus,
  transitionLimit,
  type PublishedSlot,
  type SlotStatus,
  type Transition,
} from "../../api/status.ts";
import type { Observed } from "../../api/workload.ts";
import { computeClaims, reportOf } from "../observe/compute.ts";
import type { Backoff } from "../plan/backoff.ts";
import { failuresInForce } from "../plan/facts.ts";
import { isReplacing } from "../plan/growth.ts";
import { processInput, type ProcessInput } from "../plan/processes.ts";
import { failuresOf } from "./failures.ts";
import type { Outcome } from "./outcome.ts";
import { onRequestStatus, unknownRefsMessage } from "./on-request.ts";
import { loadOf } from "./load-times.ts";
import { lastBenchmarkOf } from "./benchmark.ts";
import { decisionsOf, imageOf, protocolsOf } from "./derived.ts";
import { healthOf, type SlotInput } from "../plan/input.ts";
import { isRefusal } from "../../engines/engine.ts";
import { claimsOf, type Decision } from "../plan/decision.ts";
import { idleSince } from "../plan/wanted.ts";

/**
 * The status that follows from the decision and the result of acting. Pure; the caller writes it when it differs from
 * the previous one. `revision` is that of the input: the writer raises it.
 */
export function summarise(input: SlotInput, decision: Decision, outcome: Outcome, backoff: Backoff): PublishedSlot {
  const before = input.before?.status ?? emptyStatus;
  const generation = generationOf(input);
  const state = decision.state;
  const transitions = moved(before, decision, input.now);
  const isLoaded = state === "ready";
  const running = outcome.observed.filter(({ phase }) => phase === "running").toSorted(compareProcesses);
  const processes = running.map((process) => processStatus(process, input, decision, outcome));
  const restarted = outcome.started.filter((process) => isRestart(processInput(input, process))).length;
  const restarts = before.restarts + restarted;
  const readySince = isLoaded ? (before.readySince ?? input.now.toISOString()) : undefined;
  const idle = idleSince(input);
  const spec = input.spec ?? unconfiguredSlot(input.name);
  const status: SlotStatus = {
    state,
    conditions: nextConditions(before.conditions, claimsFor(input, decision, outcome), generation, input.now),
    observedGeneration: generation,
    model: modelOf(input, before, outcome, running.length > 0),
    ...onRequestStatus(input, decision, backoff),
    capabilities: [...outcome.capabilities],
    protocols: protocolsOf(before, outcome),
    runtime: input.runtime,
    backend: input.backend ?? (spec.backend === "auto" ? "cpu" : spec.backend),
    decisions: decisionsOf(input, before, outcome),
    ...(running.length > 0 ? reportOf(input) : {}),
    ...fitOf(input, before, running.length > 0),
    ...contextOf(input, before),
    ...endpointOf(input, processes),
    processes,
    ...hashOf(running),
    ...(running.length > 0 ? imageOf(input, running) : {}),
    ...(input.unprepared?.state === "fetching" ? { progress: { ...input.unprepared.progress } } : {}),
    restarts,
    ...failuresOf(input, decision, backoff),
    ...loadOf(input, before, decision, outcome),
    ...lastBenchmarkOf(input, before, outcome),
    ...(readySince === undefined ? {} : { readySince }),
    ...(idle === undefined ? {} : { idleSince: idle }),
    ...(input.group?.lentUntil === undefined ? {} : { lentUntil: input.group.lentUntil }),
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
    plan: planOf(decision),
    ...bearersOf(running),
  };
}

/** The failures of an engine whose image never came: no program of it has begun. */
const imageReasons: ReadonlySet<string> = new Set(["ImageNotFound", "PullFailed", "Unauthorized", "WrongPlatform"]);

/** Whether a start follows the failure of an engine that had begun; other starts were requested, or are the first. */
function isRestart(input: ProcessInput): boolean {
  return failuresInForce(input) > 0 && !imageReasons.has(input.before?.status.lastError?.reason ?? "");
}

function planOf({ reason, message, steps }: Decision): Plan {
  return { reason, message, steps: [...steps] };
}

function urlOf({ host, port }: Pick<Observed, "host" | "port">): string {
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** For gateways: outside the status, which people see. */
function bearersOf(running: SlotInput["observed"]): Pick<PublishedSlot, "bearerList"> {
  const bearerList = running.flatMap(({ role, ordinal, bearer }) =>
    bearer === undefined ? [] : [{ role, ordinal, bearer }],
  );
  return bearerList.length === 0 ? {} : { bearerList };
}

function generationOf(input: SlotInput): number {
  const { before } = input;
  if (input.generation !== undefined) return input.generation;
  if (before === undefined) return 1;
  return before.specHash === input.specHash ? before.generation : before.generation + 1;
}

function processStatus(
  process: Observed,
  input: SlotInput,
  decision: Decision,
  outcome: Outcome,
): SlotStatus["processes"][number] {
  const { role, ordinal, host, port } = process;
  return {
    role,
    ordinal,
    host,
    port,
    endpoint: urlOf(process),
    ...process.id,
    isReady: isReady(process, decision.state, outcome),
    startedAt: process.startedAt.toISOString(),
    ...drainingOf(process, input, decision, outcome),
  };
}

/** Whether gateways may send to it: not while they must drain it. */
function isReady(process: Observed, state: SlotStatus["state"], outcome: Outcome): boolean {
  const isOpen = process.role === "main" ? state === "ready" : state !== "unloading";
  return isOpen && healthOf(outcome, process)?.isWarm === true && !outcome.stopping.includes(processName(process));
}

/** Whether a main process is there that gateways may send to. */
export function isServed(outcome: Outcome): boolean {
  return outcome.observed.some(
    (process) => process.phase === "running" && process.role === "main" && isReady(process, "ready", outcome),
  );
}

/** Since when a process drains while the slot stays ready: set once, until the process has ended. */
function drainingOf(
  process: Observed,
  { before, now }: SlotInput,
  { state }: Decision,
  { stopping, draining }: Outcome,
): { readonly drainingSince?: string } {
  const name = processName(process);
  if (state === "unloading" || !stopping.includes(name)) return {};
  const known = before?.status.processes.find((each) => isSameProcess(each, process))?.drainingSince;
  const drainingSince = known ?? (draining.includes(name) ? now.toISOString() : undefined);
  return drainingSince === undefined ? {} : { drainingSince };
}

function claimsFor(input: SlotInput, decision: Decision, { capabilities }: Outcome): ConditionClaim[] {
  let claims = claimsOf(decision);
  if (input.diagnostics.length > 0 && input.spec !== undefined) {
    // The last valid spec stays in force; in any state, a person must mend the manifest.
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
  if (input.unknownRefs !== undefined && input.unknownRefs.length > 0) {
    const message = unknownRefsMessage(input.file, input.unknownRefs);
    claims.push({ type: "ModelUnknown", status: "True", reason: "ModelUnknown", message });
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
  const compute = isRunning ? computeClaims(input) : [];
  // One condition of a type: that an engine is slow is said first.
  claims.push(...(isRunning && compute.length === 0 && capabilities.includes("chat") ? chatClaims(input) : compute));
  return claims;
}

const templateFlags: ReadonlySet<string> = new Set(["--chat-template", "--chat-template-file"]);

function chatClaims({ spec, model }: SlotInput): ConditionClaim[] {
  if (spec?.engine !== "llama" || spec.command !== undefined || model === undefined) return [];
  const hasOwn =
    spec.args.some((word) => templateFlags.has(word)) ||
    Object.keys(spec.env).some((name) => name.startsWith("LLAMA_ARG_CHAT_TEMPLATE"));
  const message = hasOwn ? undefined : chatFault(model);
  return message === undefined ? [] : [{ type: "Degraded", status: "True", reason: "NoChatTemplate", message }];
}

function moved(before: SlotStatus, decision: Decision, now: Date): Transition[] {
  if (before.state === decision.state) return before.transitions;
  const transition = {
    at: now.toISOString(),
    from: before.state,
    to: decision.state,
    reason: decision.reason,
    message: decision.message.slice(0, 500),
  };
  return [...before.transitions, transition].slice(-transitionLimit);
}

function modelOf(input: SlotInput, before: SlotStatus, outcome: Outcome, isRunning: boolean): SlotStatus["model"] {
  const { ref, origin } = input.held;
  const declared = input.spec?.model.default;
  // While the old engine still runs, the slot holds that engine's model.
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

/** The running processes match the spec. */
function isCurrent(input: SlotInput): boolean {
  if (isRefusal(input.workloads)) return false;
  const { workloads } = input;
  return input.observed.every(
    (process) =>
      process.phase === "exited" ||
      workloads.some((workload) => isSameProcess(workload, process) && workload.hash === process.hash),
  );
}

/** The need of the engine that runs, until the next one is started. */
function fitOf(input: SlotInput, before: SlotStatus, isRunning: boolean): Pick<SlotStatus, "fit"> {
  const isOld = isRunning && input.observed.length > 0 && isReplacing(input);
  const fit = isOld ? (before.fit ?? input.fit) : input.fit;
  return fit === undefined ? {} : { fit };
}

/** An earlier operator's word stays until there is a later one. */
function contextOf({ spec, context }: SlotInput, before: SlotStatus): Pick<SlotStatus, "context"> {
  const latest = context ?? before.context;
  return spec?.model.keepContext === undefined || latest === undefined ? {} : { context: latest };
}

/** The endpoint of the first main process that answers, else of the first. */
function endpointOf(input: SlotInput, processes: SlotStatus["processes"]): Pick<SlotStatus, "endpoint" | "port"> {
  const mains = processes.filter(({ role }) => role === "main");
  const main = mains.find(({ isReady }) => isReady) ?? mains[0];
  if (main !== undefined) return { endpoint: main.endpoint, port: main.port };
  return input.spec?.port === undefined ? {} : { port: input.spec.port };
}

function hashOf(running: SlotInput["observed"]): Pick<SlotStatus, "workloadHash"> {
  const main = running.find(({ role }) => role === "main") ?? running[0];
  return main === undefined ? {} : { workloadHash: main.hash };
}
