import { processIn, processOf, type Step } from "../../api/plan.ts";
import type { Observed, Workload } from "../../api/workload.ts";
import { RuntimeUnavailable } from "../../runtimes/runtime-unavailable.ts";
import type { StartOptions } from "../../runtimes/runtime.ts";
import { NoContextPlace } from "../../runtimes/start-failure.ts";
import { errorMessage } from "../../lib/error-code.ts";
import { startOf, workloadsOf } from "../plan/facts.ts";
import { attemptOf } from "../plan/preparing.ts";
import type { Gathered } from "../observe/gather.ts";
import { healthOf, type SlotInput } from "../plan/input.ts";
import { unreachableReason } from "../plan/unreachable.ts";
import { stateOf, type Decision } from "../plan/decision.ts";
import type { Verdict } from "../plan/verdict.ts";
import { isSameProcess, processKey, processName, type ProcessRef } from "../../api/process-ref.ts";
import type { Dependencies } from "../dependencies.ts";

export interface Acted {
  readonly started: readonly ProcessRef[];
  readonly hasChanged: boolean;
  readonly failure?: { readonly step: Step; readonly error: unknown };
}

export const nothing: Acted = { started: [], hasChanged: false };

/**
 * Carries out the steps in order; processes are stopped concurrently. No decision is taken here. A failed step about a
 * process ends the steps of that process; another failed step ends the acting. Rejects once `signal` is aborted, before
 * the next step or during a stop: the next operator completes the stop.
 */
export async function act(
  dependencies: Dependencies,
  gathered: Gathered,
  steps: readonly Step[],
  signal: AbortSignal,
): Promise<Acted> {
  const { input } = gathered;
  const started: ProcessRef[] = [];
  const stops = new Map<string, Promise<void>>();
  // Processes that gateways still have requests at are not touched.
  const untouched = new Set(steps.flatMap((step) => (step.do === "drain" ? (processIn(step) ?? []) : [])));
  let failure: Acted["failure"];
  let hasChanged = false;
  const leaving = steps.filter((step) => step.do === "stop").filter((step) => !untouched.has(processIn(step) ?? ""));
  for (const step of steps) {
    signal.throwIfAborted();
    const name = processIn(step);
    if (name !== undefined && untouched.has(name)) continue;
    try {
      switch (step.do) {
        case "stop":
          if (stops.size === 0)
            for (const each of leaving) stops.set(processIn(each) ?? "", begun(stopped(dependencies, input, each)));
          hasChanged = true;
          await unlessAborted(stops.get(name ?? "") ?? Promise.resolve(), signal);
          break;
        case "start": {
          const workload = workloadOf(input, processOf(step));
          // A process that is stopped now starts in the next reconcile, from a fresh observation: its memory is free by
          // then.
          if (workload === undefined || leaving.some((each) => processIn(each) === name)) break;
          const prepared = await dependencies.contexts.prepared(workload, input.held.ref);
          if (isWithdrawn(dependencies, input)) break;
          await ensured(dependencies, prepared, ownerOf(dependencies, input));
          started.push(processOf(step));
          hasChanged = true;
          break;
        }
        case "measure":
        case "readHeader":
        case "estimate":
        case "record":
        case "lease":
          // The decision has waited for these (`learning.ts`, `leased`).
          break;
        case "fetch":
        case "pin":
        case "repair":
        case "warm":
        case "drain":
        case "wait":
          hasChanged = (await carryOut(dependencies, gathered, step)) || hasChanged;
          break;
        default:
          step satisfies never;
      }
    } catch (error) {
      signal.throwIfAborted();
      failure ??= { step, error };
      hasChanged = true;
      if (name === undefined) break;
      untouched.add(name);
    }
  }
  return { started, hasChanged, ...(failure === undefined ? {} : { failure }) };
}

/** True where the running processes may have changed. */
async function carryOut(
  dependencies: Dependencies,
  { input, engine, engineInput }: Gathered,
  step: Extract<Step, { do: "fetch" | "pin" | "repair" | "warm" | "drain" | "wait" }>,
): Promise<boolean> {
  switch (step.do) {
    case "fetch": {
      const attempt = attemptOf(input);
      const model = input.unprepared?.model;
      const workload = workloadOf(input, processOf(step));
      if (model !== undefined) await dependencies.pulls.join(model, { requester: input.name, attempt });
      else if (workload !== undefined) await dependencies.runtime.fetch?.(workload, attempt);
      return false;
    }
    case "pin":
      await dependencies.images.record(step.image, step.digest);
      return false;
    case "repair": {
      const workload = workloadOf(input, processOf(step));
      if (workload === undefined || isWithdrawn(dependencies, input)) return false;
      await dependencies.runtime.ensure(workload, ownerOf(dependencies, input));
      return true;
    }
    case "warm": {
      const process = input.observed.find((each) => isSameProcess(each, processOf(step)));
      if (process === undefined || engine === undefined || engineInput === undefined) return false;
      const target = engine.probe({ ...engineInput, endpoint: process }, step.role);
      const { spec } = input;
      const onWarm = async (signal: AbortSignal): Promise<void> => {
        if (spec !== undefined) await dependencies.contexts.restore(process, spec, signal);
      };
      dependencies.health.warm(process, target, warmUpTimeoutMs(input, process), onWarm);
      return false;
    }
    case "drain":
    case "wait":
      return false;
    default:
      return step satisfies never;
  }
}

/** Saving its context is part of the time that an engine has to stop. */
async function stopped(
  { runtime, ports, contexts }: Dependencies,
  { name, spec, observed }: SlotInput,
  step: Extract<Step, { do: "stop" }>,
): Promise<void> {
  const stopSeconds = spec?.stopSeconds ?? 30;
  const process = observed.find((each) => isSameProcess(each, processOf(step)));
  const isSaved = step.savesContext === true && process !== undefined && spec !== undefined;
  if (process?.phase === "exited") await contexts.ended(process, spec);
  const tookMs = isSaved ? await contexts.save(process, spec, stopSeconds * 1000) : 0;
  await runtime.remove(name, processOf(step), { stopSeconds: Math.max(0, stopSeconds - tookMs / 1000) });
  ports.release(name, processOf(step));
  if (isSaved) await contexts.left(process, spec);
}

/** Without its place for contexts where its runtime cannot give it that: an engine serves as well without. */
async function ensured({ runtime, contexts }: Dependencies, workload: Workload, owner: StartOptions): Promise<void> {
  try {
    await runtime.ensure(workload, owner);
  } catch (error) {
    if (!(error instanceof NoContextPlace)) throw error;
    await runtime.ensure(await contexts.refused(workload, error), owner);
  }
}

/** Acting may end before it comes to that stop: its rejection must not end the program. */
function begun(work: Promise<void>): Promise<void> {
  work.catch(() => undefined);
  return work;
}

/**
 * Its manifest or object has been deleted since it was gathered: an engine that starts now would have no owner, and would
 * stay where this operator ends before the next reconcile.
 */
function isWithdrawn({ source }: Dependencies, { name, isDeclared }: SlotInput): boolean {
  return isDeclared && source.get("Slot", name) === undefined;
}

/** By the newest that is known: an engine of an object that is gone would go with it. */
function ownerOf({ source }: Dependencies, { name }: SlotInput): StartOptions {
  const uid = source.get("Slot", name)?.uid;
  return uid === undefined ? {} : { ownerUid: uid };
}

function workloadOf(input: SlotInput, process: ProcessRef): Workload | undefined {
  return workloadsOf(input).find((each) => isSameProcess(each, process));
}

/**
 * Takes the ports that the steps need, all or none, before anything else is done. False: another slot has taken one of them
 * since it was found free, and the decision must be taken again.
 */
export function leased({ ports }: Pick<Dependencies, "ports">, slot: string, steps: readonly Step[]): boolean {
  const wanted = steps.flatMap((step) => (step.do === "lease" ? step.ports : []));
  const processes = wanted.map((each) => ({ ...processOf(each), slot, port: each.port }));
  const isLeased = processes.every((process) => ports.reserve(process, process.port) !== undefined);
  if (!isLeased)
    for (const process of processes)
      if (ports.holder(process.port) === processKey(process)) ports.release(slot, process);
  return isLeased;
}

/** Sends the due probes: those that a decision waits for, or the others. */
export async function probe(
  dependencies: Dependencies,
  { input, engine, engineInput }: Gathered,
  which: "awaited" | "other",
): Promise<void> {
  const { spec } = input;
  if (spec === undefined || engine === undefined || engineInput === undefined) return;
  const timeoutMs = spec.probe.timeoutSeconds * 1000;
  const probes = input.observed.flatMap((process) => {
    const due = healthOf(input, process)?.probeDue;
    if (process.phase !== "running" || due === undefined || due.isAwaited !== (which === "awaited")) return [];
    const target = engine.probe({ ...engineInput, endpoint: process }, process.role);
    return [dependencies.health.probe(process, target, { timeoutMs, isAdopted: due.isAdopted })];
  });
  if (which === "awaited") await Promise.all(probes);
}

/** Has the warm processes probed from now on. Not one whose socket is gone: a stranger on its port must get no probe. */
export function follow({ health }: Dependencies, { input, engine, engineInput }: Gathered): void {
  const { name, spec, observed } = input;
  if (spec === undefined || engine === undefined || engineInput === undefined) return;
  const listening = observed.filter(({ phase, isListening }) => phase === "running" && isListening);
  health.follow(
    name,
    listening.map((process) => [process, engine.probe({ ...engineInput, endpoint: process }, process.role)]),
    spec,
  );
}

async function unlessAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(new Error("the operator is being stopped"));
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** The rest of this process's start-up time: a large model's first token may take long. */
function warmUpTimeoutMs(input: SlotInput, process: Observed): number {
  const limitMs = (input.spec?.probe.startupSeconds ?? 600) * 1000;
  return Math.min(limitMs, Math.max(1000, limitMs - (input.now.getTime() - startOf(input, process))));
}

/** The decision when one of its steps could not be carried out. */
export function actFailed(decision: Decision, failed: NonNullable<Acted["failure"]>): Decision {
  const verdict = verdictAfter(decision, failed);
  const concerned = processIn(failed.step);
  const parts = decision.parts?.map((part) =>
    processName(part) === concerned ? { ...part, verdict: verdictAfter(part.verdict, failed) } : part,
  );
  const { failure: _failure, ...kept } = decision;
  const after = { ...kept, ...(parts === undefined ? {} : { parts }) };
  const isComing = decision.parts?.some(
    (part) => processName(part) !== concerned && part.verdict.severity === "progressing",
  );
  // Another process of the slot is coming up, and is looked at soon; the step that failed is not repeated at once.
  if (decision.state !== "ready" && decision.state !== "unloading" && isComing === true)
    return { ...after, requeueMs: Math.min(1000, Math.max(200, decision.requeueMs ?? Infinity)) };
  return { ...after, ...verdict, state: stateOf(verdict, decision.isServed) };
}

function verdictAfter(
  { severity, message: before, reason: why, steps }: Verdict,
  { step, error }: NonNullable<Acted["failure"]>,
): Verdict {
  const message = `${step.do} failed: ${errorMessage(error)}`;
  // Stopping is retried until the engine is gone.
  if (severity === "leaving")
    return { severity, reason: why, message: `${before}; ${message}`, steps, requeueMs: 1000 };
  const isUnreachable = error instanceof RuntimeUnavailable;
  const reason = isUnreachable ? unreachableReason : "ActFailed";
  const failure = { reason, message, isTerminal: false, isSteady: false };
  // An unreachable runtime is not the engine's fault.
  return { severity: "retrying", reason, message, steps, ...(isUnreachable ? {} : { failure }), requeueMs: 1000 };
}
