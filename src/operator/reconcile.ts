import type { Logger } from "pino";
import { processIn, type Step } from "../api/plan.ts";
import { withTranslated } from "../api/names.ts";
import { capabilitiesOf } from "../engines/engine.ts";
import { act, actFailed, follow, leased, nothing, probe, type Acted } from "./act/act.ts";
import { gather, type Gathered } from "./observe/gather.ts";
import { runtimesOf } from "./observe/observation.ts";
import { imagesToFetch, modelsToFetch } from "./observe/preparation.ts";
import type { SlotInput } from "./plan/input.ts";
import type { Occupancy } from "./slot-memory.ts";
import { wantedFit } from "./plan/growth.ts";
import { isAwaited, nothingLearned } from "./plan/learning.ts";
import { handledRequests, settledRequests } from "./plan/handled.ts";
import { pausedDecision } from "./plan/paused.ts";
import { withoutFailures } from "./plan/compose.ts";
import { plan } from "./plan/plan.ts";
import { publish, type PublishOptions } from "./report/publish.ts";
import { isServed } from "./report/summarise.ts";
import type { Done } from "./queue.ts";
import { RuntimeUnavailable } from "../runtimes/runtime-unavailable.ts";
import type { Outcome } from "./report/outcome.ts";
import type { Decision } from "./plan/decision.ts";
import type { Dependencies } from "./dependencies.ts";

export interface ReconcileOptions extends PublishOptions {
  readonly log: Logger;
  /** Plans and publishes plans, but starts and stops nothing. */
  readonly isPaused: boolean;
  /** A foreign change to a running engine was undone. */
  readonly onRepaired?: (reason: string) => void;
  /** Aborted when this operator must not act any more. */
  readonly signal: AbortSignal;
}

/** The delay before a status that could not be written is tried again. */
const unwrittenMs = 1000;

/** gather → plan → act → summarise, for one slot. Safe to run twice, late, or after a crash at any line. */
export async function reconcile(dependencies: Dependencies, name: string, options: ReconcileOptions): Promise<Done> {
  const { published, written } = dependencies;
  const last = published.get(name);
  // Gateways still read the status before: nothing of what they read may be stopped or replaced.
  if (last !== undefined && written.isBehind(name) && !(await written.write(last)) && isHeldUp(dependencies, name)) {
    // Nobody looks whether the engines still own their ports.
    dependencies.health.unfollow(name);
    return { requeueMs: unwrittenMs };
  }
  const gathered = options.isPaused
    ? await gatherAnswered(dependencies, name)
    : await gatherLearned(dependencies, name, options.signal);
  // A probe only reads: a paused operator sends it too, otherwise adopted engines would count as dead.
  void probe(dependencies, gathered, "other");
  follow(dependencies, gathered);
  const { groups } = dependencies;
  const decided = plan(gathered.input);
  const decision = options.isPaused ? pausedDecision(gathered.input, decided) : decided;
  const occupancy = occupancyOf(gathered.input, decided);
  groups.record(name, occupancy, wantedFit(gathered.input, groups.wantedBy(name), occupancy === "requesting"));
  const done = options.isPaused
    ? await publishOnly(dependencies, gathered, decision, options)
    : await carryOut(dependencies, gathered, decision, options);
  if (!written.isBehind(name)) return done;
  return { requeueMs: Math.min(done.requeueMs ?? Infinity, unwrittenMs) };
}

/**
 * Whether nothing may be done for the slot until its last status is written. A slot that nothing declares any more ends all
 * the same: in a namespace that is being deleted no status can be written, and its engine would outlive it.
 */
function isHeldUp({ written, source }: Dependencies, name: string): boolean {
  return written.isBehind(name) && source.get("Slot", name) !== undefined;
}

/** The slot's occupancy of a place in its group, by the decision. */
function occupancyOf({ observed }: SlotInput, { steps, check }: Decision): Occupancy {
  if (observed.length > 0 || steps.some((step) => step.do === "start")) return "present";
  return check === "ungranted" || check === "memoryAwaited" ? "requesting" : "none";
}

/** The input of one decision, with the answers of the engines that must be probed before it. */
async function gatherAnswered(dependencies: Dependencies, name: string): Promise<Gathered> {
  const gathered = await gather(dependencies, name);
  const { health } = gathered.input;
  if (!Object.values(health).some(({ probeDue }) => probeDue?.isAwaited === true)) return gathered;
  await probe(dependencies, gathered, "awaited");
  return await gather(dependencies, name);
}

/** More rounds than a decision ever needs: the facts change as fast as they are learned. */
const mostRounds = 5;

/** The same with everything learned on which the decision depends: a start waits for the engine's estimate. */
async function gatherLearned(dependencies: Dependencies, name: string, signal: AbortSignal): Promise<Gathered> {
  let gathered = await gatherAnswered(dependencies, name);
  let learned = nothingLearned;
  for (let round = 0; round < mostRounds; round++) {
    const { unlearned, ...input } = gathered.input;
    if (unlearned === undefined) return gathered;
    signal.throwIfAborted();
    learned = await dependencies.learning.learn(gathered.input, learned);
    if (!unlearned.some(isAwaited)) return { ...gathered, input };
    gathered = await gather(dependencies, name, learned);
  }
  throw new Error(`${name}: what its start depends on changes as fast as it is learned`);
}

async function publishOnly(
  dependencies: Dependencies,
  gathered: Gathered,
  decision: Decision,
  options: ReconcileOptions,
): Promise<Done> {
  explain(options.log, gathered.input, decision);
  const outcome = await outcomeOf(dependencies, gathered, nothing, []);
  // A request that is not acted on does not count as handled.
  const handledRequests = gathered.input.before?.status.handledRequests ?? {};
  await publish(dependencies, gathered.input, decision, { ...outcome, handledRequests }, options);
  if (decision.isDeleted === true) dependencies.ports.release(gathered.input.name);
  return decision.requeueMs === undefined ? {} : { requeueMs: Math.max(1000, decision.requeueMs) };
}

async function carryOut(
  dependencies: Dependencies,
  gathered: Gathered,
  decided: Decision,
  options: ReconcileOptions,
): Promise<Done> {
  // Gateways must know before an engine ends: the first reconcile of `unloading` only publishes.
  const isAnnouncing = decided.state === "unloading" && gathered.input.before?.status.state !== "unloading";
  const isDraining = decided.steps.some((step) => step.do === "drain" && step.role === undefined);
  let { input } = gathered;
  // Until its status is published: from then on the published state counts.
  using claim = claimed(dependencies, gathered, decided);
  if (claim === undefined) return { requeueMs: 0 };
  const isActing = !isAnnouncing && !isDraining;
  if (isActing && !leased(dependencies, input.name, decided.steps)) return { requeueMs: 0 };
  // Not before: a decision that another slot has overtaken is taken again, and would be logged again.
  explain(options.log, gathered.input, decided);
  await writeRedated(dependencies, input);
  let acted = nothing;
  let decision = decided;
  if (isActing) {
    if (decided.failure !== undefined) {
      // Published before anything is stopped: ending the rest of an engine may take long.
      const before = await publish(
        dependencies,
        input,
        decided,
        await outcomeOf(dependencies, gathered, nothing, decided.steps),
        options,
      );
      // A port to which gateways may still send is not released.
      if (isHeldUp(dependencies, input.name)) return { requeueMs: unwrittenMs };
      input = { ...input, before };
      decision = withoutFailures(decided);
    }
    acted = await act(dependencies, gathered, decided.steps, options.signal);
    if (acted.failure !== undefined) {
      options.log.warn(
        { slot: input.name, err: acted.failure.error },
        `${input.name}: ${acted.failure.step.do} failed`,
      );
    } else if (decided.steps.some((step) => step.do === "repair")) options.onRepaired?.(decided.reason);
  }
  const outcome = await outcomeOf(dependencies, gathered, acted, decided.steps);
  // The last process that answered has ended meanwhile: the next reconcile decides about that, as after a crash here.
  if (acted.hasChanged && decided.state === "ready" && !isServed(outcome)) return { requeueMs: 0 };
  if (acted.failure !== undefined) decision = actFailed(decided, acted.failure);
  await publish(dependencies, input, decision, outcome, options);
  // A model or an image that the slot needs no more must not be fetched for nobody.
  await dependencies.pulls.keepOnly(input.name, modelsToFetch(dependencies, input));
  const images = imagesToFetch(input);
  if (images !== undefined) await dependencies.runtime.keepFetches?.(input.name, images);
  for (const { kind, token } of settledRequests(input, decision))
    await dependencies.requests.remove(input.name, kind, token);
  // With the setting goes what it saved, also of a built-in slot, which is never deleted.
  const isKeeping = input.spec?.model.keepContext !== undefined;
  if (input.before?.status.context !== undefined && !isKeeping) await dependencies.contexts.forget(input.name);
  if (decision.isDeleted === true) await forgetAll(dependencies, input);
  else if (decision.steps.length === 0 && input.observed.length === 0) dependencies.ports.release(input.name);
  // A second reconcile sees whether any gateway must be waited for: without a gateway no event would cause it.
  if (isAnnouncing) return { requeueMs: 0 };
  if (acted.failure === undefined && decided.state === "unloading" && !isDraining) return { requeueMs: 0 };
  return decision.requeueMs === undefined ? {} : { requeueMs: decision.requeueMs };
}

/** The memory of a start. Undefined: another slot was faster, and the decision must be taken again. */
function claimed({ starting }: Dependencies, { input, claims }: Gathered, { steps }: Decision): Disposable | undefined {
  const isStart = steps.some((step) => step.do === "start");
  return starting.claim(input.name, isStart ? input.fit : undefined, claims);
}

/** Unless another request has replaced it since. */
async function writeRedated({ requests }: Dependencies, { name, redated }: SlotInput): Promise<void> {
  const tokens = new Set(requests.list(name).map(({ token }) => token));
  for (const request of redated) if (tokens.has(request.token)) await requests.put(request);
}

/** The result of acting; a new observation only where a process was started or stopped. */
async function outcomeOf(
  dependencies: Dependencies,
  { input, engine, engineInput }: Gathered,
  acted: Acted,
  steps: readonly Step[],
): Promise<Outcome> {
  return {
    observed: acted.hasChanged ? await observeAgain(dependencies, input) : input.observed,
    health: input.health,
    protocols: engine === undefined || engineInput === undefined ? [] : engine.protocols(engineInput),
    started: acted.started,
    capabilities:
      engine === undefined || engineInput === undefined ? [] : withTranslated(capabilitiesOf(engine, engineInput)),
    served: engine === undefined || engineInput === undefined ? undefined : engine.servedModel(engineInput),
    stopping: steps.flatMap((step) => (step.do === "stop" || step.do === "drain" ? (processIn(step) ?? []) : [])),
    draining: steps.flatMap((step) => (step.do === "drain" ? (processIn(step) ?? []) : [])),
    handledRequests: handledRequests(input),
  };
}

/** With a runtime that became unreachable meanwhile the earlier observation stays. */
async function observeAgain(
  dependencies: Dependencies,
  { name, runtime, observed, spec, before }: SlotInput,
): Promise<SlotInput["observed"]> {
  try {
    return await dependencies.runtime.observe(name, [runtime, ...runtimesOf(dependencies, spec, before)]);
  } catch (error) {
    if (!(error instanceof RuntimeUnavailable)) throw error;
    return observed;
  }
}

/** Deletes what was kept for it. Requests since the observation may be for a new slot of that name. */
async function forgetAll(dependencies: Dependencies, { name, requests }: SlotInput): Promise<void> {
  dependencies.ports.release(name);
  await dependencies.contexts.forget(name);
  await dependencies.pulls.keepOnly(name, []);
  for (const { kind, token } of requests) await dependencies.requests.remove(name, kind, token);
}

/** One line per decision that changes something, and per edit: slot, steps, reason. */
function explain(log: Logger, input: SlotInput, decision: Decision): void {
  const { state, reason, message, failure, severity, check } = decision;
  // Logged when its status was removed; later reconciles change nothing.
  if (decision.isDeleted === true && input.before === undefined) return;
  const plannedBefore = input.before?.plan;
  if (plannedBefore?.reason === reason && plannedBefore.message === message && failure === undefined) {
    const isEdited = input.before?.specHash !== input.specHash && input.spec !== undefined;
    if (isEdited) log.info({ slot: input.name, state }, `${input.name}: ${state}: the edit is accepted; ${message}`);
    return;
  }
  // Replicas often wait for the same.
  const steps = [...new Set(decision.steps.map(stepText))].join(", ");
  const level = failure !== undefined || severity === "stalled" ? "warn" : "info";
  log[level](
    { slot: input.name, state, reason, check, steps },
    `${input.name}: ${state}: ${message}${steps === "" ? "" : ` → ${steps}`}`,
  );
}

function stepText(step: Step): string {
  return [step.do, processIn(step)].filter((word) => word !== undefined).join(" ");
}
