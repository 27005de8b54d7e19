import type { Logger } from "pino";
import type { Step } from "../api/plan.ts";
import { withTranslated } from "../api/names.ts";
import { capabilitiesOf } from "../engines/engine.ts";
import { act, actFailed, nothing, type Acted } from "./act.ts";
import { gather, type Gathered } from "./gather.ts";
import type { SlotInput } from "./input.ts";
import { handledRequests, settledRequests } from "./obeyed.ts";
import { whilePaused } from "./paused.ts";
import { plan } from "./plan.ts";
import { publish, type PublishOptions } from "./publish.ts";
import type { Done } from "./queue.ts";
import { RuntimeUnavailable } from "../runtimes/runtime-unavailable.ts";
import type { Outcome } from "./summarise.ts";
import type { Verdict } from "./verdict.ts";
import type { World } from "./world.ts";

export interface ReconcileOptions extends PublishOptions {
  readonly log: Logger;
  /** Plans and publishes plans, but starts and stops nothing. */
  readonly isPaused: boolean;
  /** Aborted when this operator is to act no more. */
  readonly signal: AbortSignal;
}

/** A status that could not be written is tried again after this long. */
const unwrittenMs = 1000;

/** gather → plan → act → summarise, for one slot. Safe to run twice, late, or after a crash at any line. */
export async function reconcile(world: World, name: string, options: ReconcileOptions): Promise<Done> {
  const gathered = await gather(world, name, options.isPaused);
  const { check, ...decided } = plan(gathered.input);
  const verdict = options.isPaused ? whilePaused(gathered.input, decided) : decided;
  explain(options.log, gathered.input, verdict, check);
  const done = options.isPaused
    ? await sayOnly(world, gathered, verdict, options)
    : await carryOut(world, gathered, verdict, options);
  if (!world.written.isBehind(name)) return done;
  return { requeueMs: Math.min(done.requeueMs ?? Infinity, unwrittenMs) };
}

async function sayOnly(world: World, gathered: Gathered, verdict: Verdict, options: ReconcileOptions): Promise<Done> {
  const outcome = await look(world, gathered, nothing, []);
  // What is not acted on is not obeyed either.
  const handledRequests = gathered.input.before?.status.handledRequests ?? {};
  await publish(world, gathered.input, verdict, { ...outcome, handledRequests }, options);
  if (verdict.isDeleted === true) await forget(world, gathered.input);
  return verdict.requeueMs === undefined ? {} : { requeueMs: Math.max(1000, verdict.requeueMs) };
}

async function carryOut(world: World, gathered: Gathered, decided: Verdict, options: ReconcileOptions): Promise<Done> {
  // Gateways must know before an engine goes: the first look at `unloading` only publishes.
  const isAnnouncing = decided.state === "unloading" && gathered.input.before?.status.state !== "unloading";
  const isDraining = decided.steps.some((step) => step.do === "drain");
  let { input } = gathered;
  let acted = nothing;
  let verdict = decided;
  if (!isAnnouncing && !isDraining) {
    if (decided.failure !== undefined) {
      // Published before anything is stopped: ending what is left of an engine may take its time.
      const before = await publish(world, input, decided, await look(world, gathered, nothing, decided.steps), options);
      input = { ...input, before };
      const { failure: _told, ...rest } = decided;
      verdict = rest;
    }
    acted = await act(world, gathered, decided.steps, options.signal);
    if (acted.failure !== undefined) {
      options.log.warn(
        { slot: input.name, err: acted.failure.error },
        `${input.name}: ${acted.failure.step.do} failed`,
      );
      verdict = actFailed(decided, acted.failure);
    }
  }
  await publish(world, input, verdict, await look(world, gathered, acted, decided.steps), options);
  for (const { kind, token } of settledRequests(input, verdict)) await world.requests.remove(input.name, kind, token);
  if (verdict.isDeleted === true) await forget(world, input);
  else if (verdict.steps.length === 0 && input.observed.length === 0) world.ports.release(input.name);
  // A second look sees whether anybody must be waited for: without a gateway no event would tell.
  if (isAnnouncing) return { requeueMs: 0 };
  if (acted.failure === undefined && decided.state === "unloading" && !isDraining) return { requeueMs: 0 };
  return verdict.requeueMs === undefined ? {} : { requeueMs: verdict.requeueMs };
}

/** What acting has brought about; a new look only where something was started or stopped. */
async function look(
  world: World,
  { input, engine, engineInput }: Gathered,
  acted: Acted,
  steps: readonly Step[],
): Promise<Outcome> {
  return {
    observed: acted.hasChanged ? await observeAgain(world, input) : input.observed,
    health: input.health,
    protocols: engine === undefined || engineInput === undefined ? [] : engine.protocols(engineInput),
    started: acted.started,
    capabilities:
      engine === undefined || engineInput === undefined ? [] : withTranslated(capabilitiesOf(engine, engineInput)),
    served: engine === undefined || engineInput === undefined ? undefined : engine.servedModel(engineInput),
    stopping: steps.flatMap((step) => (step.do === "stop" ? [step.role] : [])),
    handledRequests: handledRequests(input),
  };
}

/** A runtime that went silent meanwhile leaves what was seen before. */
async function observeAgain(world: World, { name, runtime, observed }: SlotInput): Promise<SlotInput["observed"]> {
  try {
    return await world.runtime.observe(name, runtime === "process" ? [] : [runtime]);
  } catch (error) {
    if (!(error instanceof RuntimeUnavailable)) throw error;
    return observed;
  }
}

/** What was asked since the look may be for a slot of that name that is there by now. */
async function forget(world: World, { name, requests }: SlotInput): Promise<void> {
  world.ports.release(name);
  world.health.forget(name);
  world.compute.forget(name);
  for (const { kind, token } of requests) await world.requests.remove(name, kind, token);
}

/** One line per decision that changes something, and per edit: which slot, which steps, why. */
function explain(log: Logger, input: SlotInput, verdict: Verdict, check: string): void {
  const { state, reason, message, failure, row } = verdict;
  // Told when its status went; later looks find nothing that changed.
  if (verdict.isDeleted === true && input.before === undefined) return;
  const plannedBefore = input.before?.plan;
  if (plannedBefore?.reason === reason && plannedBefore.message === message && failure === undefined) {
    const isEdited = input.before?.specHash !== input.specHash && input.spec !== undefined;
    if (isEdited) log.info({ slot: input.name, state }, `${input.name}: ${state}: the edit is taken; ${message}`);
    return;
  }
  const steps = verdict.steps.map((step) => ("role" in step ? `${step.do} ${step.role}` : step.do)).join(", ");
  const level = failure !== undefined || row === "stalled" || row === "loadedStalled" ? "warn" : "info";
  log[level](
    { slot: input.name, state, reason, check, steps },
    `${input.name}: ${state}: ${message}${steps === "" ? "" : ` → ${steps}`}`,
  );
}
