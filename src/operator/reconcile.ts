import type { Logger } from "pino";
import type { Step } from "../api/plan.ts";
import type { PublishedSlot } from "../api/status.ts";
import { isRefusal } from "../engines/engine.ts";
import { canonicalJson } from "../lib/canonical.ts";
import { gather, type Gathered } from "./gather.ts";
import { at, requestOf, type SlotInput } from "./input.ts";
import { plan } from "./plan.ts";
import type { Done } from "./queue.ts";
import { summarise, type Outcome } from "./summarise.ts";
import type { Verdict } from "./verdict.ts";
import type { World } from "./world.ts";

export interface ReconcileOptions {
  readonly log: Logger;
  /** Plans and publishes plans, but starts and stops nothing. */
  readonly isPaused: boolean;
  /** Hears of every status that was written, e.g. for metrics. */
  readonly onPublished: (after: PublishedSlot, before: PublishedSlot | undefined) => void;
}

/** gather → plan → act → summarise, for one slot. Safe to run twice, late, or after a crash at any line. */
export async function reconcile(world: World, name: string, options: ReconcileOptions): Promise<Done> {
  const gathered = await gather(world, name);
  const decided = plan(gathered.input);
  const { log } = options;
  explain(log, gathered.input, decided);
  if (options.isPaused) {
    const untouched = gathered.input.before?.status.handledRequests ?? {};
    await publish(
      world,
      gathered,
      paused(gathered.input, decided),
      await look(world, gathered, nothing, untouched),
      options,
    );
    return decided.requeueMs === undefined ? {} : { requeueMs: Math.max(1000, decided.requeueMs) };
  }
  // Gateways must know before an engine goes: the first look at `unloading` only publishes.
  const isAnnouncing = decided.state === "unloading" && gathered.input.before?.status.state !== "unloading";
  const isWaiting = isAnnouncing || decided.steps.some((step) => step.do === "drain");
  const acted = isWaiting ? nothing : await act(world, gathered, decided.steps, log);
  const verdict = acted.failure === undefined ? decided : failed(decided, acted.failure);
  const handled = await settleRequests(world, gathered.input, verdict);
  const outcome = await look(world, gathered, acted, handled);
  await publish(world, gathered, verdict, outcome, options);
  if (verdict.isDeleted === true) await forget(world, name);
  else if (!verdict.steps.length && !gathered.input.observed.length) releasePorts(world, gathered.input);
  // A second look sees whether anybody must be waited for: without a gateway no event would tell.
  if (isAnnouncing) return { requeueMs: 0 };
  if (acted.isWarmUpFailed) return { requeueMs: 250 };
  if (!isWaiting && decided.state === "unloading") return { requeueMs: 0 };
  return verdict.requeueMs === undefined ? {} : { requeueMs: verdict.requeueMs };
}

interface Acted {
  readonly started: number;
  readonly hasChanged: boolean;
  readonly isWarmUpFailed: boolean;
  readonly failure?: { readonly step: Step; readonly error: unknown };
}
const nothing: Acted = { started: 0, hasChanged: false, isWarmUpFailed: false };

/** Carries out the steps in order. No decision is taken here; a step that fails ends the acting. */
async function act(world: World, gathered: Gathered, steps: readonly Step[], log: Logger): Promise<Acted> {
  const { input, engine, engineInput } = gathered;
  let started = 0;
  let hasChanged = false;
  let isWarmUpFailed = false;
  const isStopping = steps.some((step) => step.do === "stop");
  for (const step of steps) {
    try {
      switch (step.do) {
        case "stop":
          await world.runtime.remove(input.name, step.role, { stopSeconds: input.spec?.stopSeconds ?? 30 });
          world.ports.release(input.name, step.role);
          hasChanged = true;
          break;
        case "start": {
          // What is stopped now starts in the next reconcile, from a fresh look: its memory is free by then.
          if (isStopping || isRefusal(input.workloads)) break;
          const workload = input.workloads.find(({ role }) => role === step.role);
          if (workload === undefined) break;
          await world.runtime.ensure(workload);
          started += 1;
          hasChanged = true;
          break;
        }
        case "warm": {
          const process = input.observed.find(({ role }) => role === step.role);
          if (process === undefined || engine === undefined || engineInput === undefined) break;
          const target = engine.probe(engineInput, step.role);
          const health = await world.health.warm(process, target, warmUpTimeoutMs(input));
          isWarmUpFailed = !health.isWarm;
          if (isWarmUpFailed) log.warn({ slot: input.name, role: step.role }, `warm-up: ${health.message}`);
          hasChanged = true;
          break;
        }
        case "drain":
        case "wait":
          break;
        default:
          step satisfies never;
      }
    } catch (error) {
      return { started, hasChanged: true, isWarmUpFailed, failure: { step, error } };
    }
  }
  return { started, hasChanged, isWarmUpFailed };
}

/** The rest of the start-up time: a large model's first token may take long. */
function warmUpTimeoutMs(input: SlotInput): number {
  const limitMs = (input.spec?.probe.startupSeconds ?? 600) * 1000;
  const oldest = Math.min(...input.observed.map(({ startedAt }) => startedAt.getTime()));
  return Math.max(1000, limitMs - (input.now.getTime() - oldest));
}

function failed(verdict: Verdict, { step, error }: NonNullable<Acted["failure"]>): Verdict {
  const message = error instanceof Error ? error.message : String(error);
  const reason = step.do === "start" ? "StartFailed" : "ActFailed";
  const isLoaded = verdict.row === "loadedProgressing";
  return {
    state: isLoaded ? "ready" : verdict.state === "unloading" ? "unloading" : "error",
    row: isLoaded ? "loadedRetrying" : verdict.state === "unloading" ? "unloading" : "retrying",
    reason,
    message,
    steps: verdict.steps,
    failure: { reason, message, isTerminal: false },
    requeueMs: 1000,
  };
}

/** What acting has brought about; a new look only where something was started or stopped. */
async function look(
  world: World,
  gathered: Gathered,
  acted: Acted,
  handled: Outcome["handledRequests"],
): Promise<Outcome> {
  const { input, engine, engineInput } = gathered;
  return {
    observed: acted.hasChanged ? await world.runtime.observe(input.name) : input.observed,
    health: input.health,
    started: acted.started,
    capabilities: engine === undefined || engineInput === undefined ? [] : engine.capabilities(engineInput),
    protocols: engine === undefined || engineInput === undefined ? [] : engine.protocols(engineInput),
    served: engine === undefined || engineInput === undefined ? undefined : engine.servedModel(engineInput),
    handledRequests: handled,
  };
}

/** While paused the plan is published, and the state only says what is so without acting. */
function paused(input: SlotInput, decided: Verdict): Verdict {
  const acts = decided.steps.some((step) => step.do !== "wait");
  if (!acts) return decided;
  const isServing = input.observed.some(
    ({ role, phase }) => phase === "running" && input.health[role]?.isWarm === true,
  );
  const message = `paused: ${decided.message}`;
  if (isServing && input.before?.status.state === "ready") {
    return { state: "ready", row: "loadedProgressing", reason: "Paused", message, steps: decided.steps };
  }
  if (decided.failure !== undefined || input.before?.status.state === "ready") {
    return {
      state: "error",
      row: "retrying",
      reason: decided.failure?.reason ?? "Paused",
      message,
      steps: decided.steps,
    };
  }
  const state = input.before?.status.state ?? "offline";
  return state === "error"
    ? { state, row: "retrying", reason: "Paused", message, steps: decided.steps }
    : { state: "offline", row: "offline", reason: "Paused", message, steps: decided.steps };
}

/**
 * Requests that have been obeyed, or that a later edit or request has overtaken, are forgotten; their tokens are
 * echoed in status. An unload and a swap stay: they hold until something newer speaks.
 */
async function settleRequests(world: World, input: SlotInput, verdict: Verdict): Promise<Outcome["handledRequests"]> {
  const handled: Record<string, string> = { ...input.before?.status.handledRequests };
  for (const request of input.requests) {
    handled[request.kind] = request.token;
    if (isSettled(input, verdict, request.kind)) await world.requests.remove(input.name, request.kind);
  }
  return handled;
}

function isSettled(input: SlotInput, verdict: Verdict, kind: "restart" | "load" | "unload" | "swap-model"): boolean {
  const request = requestOf(input, kind);
  if (request === undefined) return false;
  const asked = at(request.requestedAt);
  const isOnDemand = input.spec?.load === "onDemand";
  switch (kind) {
    case "restart":
      return verdict.row === "loaded" && input.observed.every(({ startedAt }) => startedAt.getTime() >= asked);
    case "load":
      // For an on-demand slot it counts as use until a request does, or its idle time is over.
      return isOnDemand
        ? verdict.row === "offline" || at(input.demand.lastRequestAt) > asked
        : verdict.row === "loaded";
    case "unload": {
      const newer = Math.max(at(requestOf(input, "load")?.requestedAt), at(requestOf(input, "restart")?.requestedAt));
      return isOnDemand
        ? verdict.row === "offline" || at(input.demand.lastRequestAt) > asked
        : newer > asked || request.specHash !== input.specHash;
    }
    case "swap-model":
      return request.model === undefined || request.specModel !== input.spec?.model.default;
    default:
      return kind satisfies never;
  }
}

async function publish(
  world: World,
  { input }: Gathered,
  verdict: Verdict,
  outcome: Outcome,
  options: ReconcileOptions,
): Promise<void> {
  const { before } = input;
  if (verdict.isDeleted === true) {
    if (before !== undefined) await world.publisher.deleteSlot(input.name);
    world.published.delete(input.name);
    return;
  }
  const after = summarise(input, verdict, outcome, world.backoff);
  if (before !== undefined && canonicalJson(after) === canonicalJson(before)) return;
  const next: PublishedSlot = { ...after, revision: (before?.revision ?? 0) + 1 };
  await world.publisher.writeSlot(next);
  world.published.set(input.name, next);
  options.onPublished(next, before);
}

function releasePorts(world: World, input: SlotInput): void {
  world.ports.release(input.name);
}

async function forget(world: World, name: string): Promise<void> {
  world.ports.release(name);
  world.health.forget(name);
  for (const { kind } of world.requests.list(name)) await world.requests.remove(name, kind);
}

/** One line per decision that changes something: which slot, which steps, why. */
function explain(log: Logger, input: SlotInput, verdict: Verdict & { check: string }): void {
  const plannedBefore = input.before?.plan;
  const steps = verdict.steps.map((step) => ("role" in step ? `${step.do} ${step.role}` : step.do)).join(", ");
  if (
    plannedBefore?.reason === verdict.reason &&
    plannedBefore.message === verdict.message &&
    verdict.failure === undefined
  )
    return;
  const level =
    verdict.failure !== undefined || verdict.row === "stalled" || verdict.row === "loadedStalled" ? "warn" : "info";
  log[level](
    { slot: input.name, state: verdict.state, reason: verdict.reason, check: verdict.check, steps },
    `${input.name}: ${verdict.state}: ${verdict.message}${steps === "" ? "" : ` → ${steps}`}`,
  );
}
