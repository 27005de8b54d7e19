import { isRefusal, workloadsOf, type Engine, type SlotInputs } from "../../engines/engine.ts";
import type { ProcessRole } from "../../api/names.ts";
import type { Dependencies } from "../dependencies.ts";
import { doesNotFit } from "../plan/facts.ts";
import { isOnCall, type SlotInput } from "../plan/input.ts";
import type { Learned } from "../plan/learning.ts";
import { attemptOf } from "../plan/preparing.ts";
import type { Placed } from "../plan/placing.ts";
import type { FitResult } from "./fit.ts";
import { fitInGroup } from "./group.ts";
import { unlessUnreachable } from "./observation.ts";
import { isRefused, portsOf, processesOf, unleasedOf, workloadsFor } from "./ports.ts";
import { arriving, isRunning, modelPreparation, preparationOf } from "./preparation.ts";

/** The facts of the slot that decide about its next start. */
export type StartingSlot = Pick<
  SlotInput,
  "name" | "now" | "observed" | "before" | "specHash" | "requests" | "want" | "group" | "threads" | "runtimeError"
>;

/** The adapter of the slot's engine, with its input and its roles in start order. */
export interface StartingEngine {
  readonly engine: Engine;
  readonly engineInput: SlotInputs;
  readonly roles: readonly ProcessRole[];
  /** The slot's runtime does not exist here. */
  readonly refusal: Placed["refusal"];
}

/** The workloads that the next start of the slot would run, and what it lacks. */
export interface NextStart extends Pick<SlotInput, "workloads" | "unleased" | "runtimeError"> {
  /** The number of replicas without a port now. */
  readonly lacking: number;
  readonly preparation: Pick<SlotInput, "unprepared" | "digests">;
  readonly fit: FitResult;
  /** With the digests that a start would record; undefined: no engine. */
  readonly engineInput: SlotInputs | undefined;
}

/** Reads the next start: with everything for a slot to be loaded, and only whether it is possible for one scaled to zero. */
export async function nextStart(
  dependencies: Dependencies,
  slot: StartingSlot,
  starting: StartingEngine | undefined,
  learned: Learned,
): Promise<NextStart> {
  const { want } = slot;
  if (starting !== undefined && want.load) return await startNow(dependencies, slot, starting, learned);
  if (starting !== undefined && isOnCall(want)) return await startLater(dependencies, slot, starting, learned);
  return nothingToStart(slot, starting?.engineInput);
}

function nothingToStart(
  { runtimeError }: Pick<SlotInput, "runtimeError">,
  engineInput: SlotInputs | undefined,
): NextStart {
  const error = runtimeError === undefined ? {} : { runtimeError };
  return { workloads: [], unleased: [], lacking: 0, preparation: { digests: {} }, fit: {}, engineInput, ...error };
}

async function startNow(
  dependencies: Dependencies,
  slot: StartingSlot,
  starting: StartingEngine,
  learned: Learned,
): Promise<NextStart> {
  const { name, observed, threads } = slot;
  const { engine, engineInput, roles, refusal } = starting;
  const { spec, placement } = engineInput;
  const processes = processesOf(roles, spec);
  const placed =
    refusal ?? portsOf(dependencies, { slot: name, spec, addressing: placement.addressing }, processes, observed);
  const make = (input: SlotInputs): SlotInput["workloads"] =>
    isRefused(placed)
      ? placed
      : workloadsFor(placed, (ports, ordinal) =>
          workloadsOf(engine, { ...input, threads: threads.value, ordinal, ports }),
        );
  const ports = isRefused(placed)
    ? {}
    : { unleased: unleasedOf(dependencies, name, placed, observed), lacking: processes.length - placed.length };
  const prepared = { ...(await preparedStart(dependencies, slot, engineInput, make)), ...ports };
  if (prepared.runtimeError !== undefined) return prepared;
  const { workloads } = prepared;
  const estimate = await estimateOf(dependencies, slot, prepared, learned);
  const fit = fitInGroup(estimate, { ...slot, workloads }, slot);
  return { ...prepared, fit, workloads: fit.refusal ?? workloads };
}

/** The workloads of the start, the first thing that must be prepared for them, and the digests of their images. */
async function preparedStart(
  dependencies: Dependencies,
  slot: StartingSlot,
  engineInput: SlotInputs,
  make: (input: SlotInputs) => SlotInput["workloads"],
): Promise<NextStart> {
  const { observed } = slot;
  const workloads = make(engineInput);
  const start = { ...nothingToStart(slot, engineInput), workloads };
  const lacks = await modelPreparation(dependencies, engineInput, workloads, observed, attemptOf(slot));
  const unprepared = lacks === undefined ? undefined : dependencies.fit.beforeFetch(engineInput, lacks);
  if (unprepared !== undefined)
    return "state" in unprepared
      ? { ...start, preparation: { digests: {}, unprepared } }
      : { ...start, workloads: unprepared };
  if (slot.runtimeError !== undefined || isRefusal(workloads)) return start;
  const found = await unlessUnreachable(preparationOf(dependencies, workloads, observed, attemptOf(slot)));
  if ("runtimeError" in found) return { ...start, runtimeError: found.runtimeError };
  const recorded = withDigests(engineInput, found.digests);
  return { ...start, preparation: found, engineInput: recorded, workloads: make(recorded) };
}

/** Whether a slot that is scaled to zero could be loaded. No port is chosen for that. */
async function startLater(
  dependencies: Dependencies,
  slot: StartingSlot,
  { engine, engineInput, roles, refusal }: StartingEngine,
  learned: Learned,
): Promise<NextStart> {
  const start = nothingToStart(slot, engineInput);
  const ports = Object.fromEntries(roles.map((role, index) => [role, index + 1]));
  const workloads = refusal ?? workloadsOf(engine, { ...engineInput, threads: slot.threads.value, ports });
  if (isRefusal(workloads))
    return { ...start, workloads: arriving(dependencies, engineInput, workloads) === undefined ? workloads : [] };
  const fit = await estimateOf(dependencies, slot, { engineInput, workloads }, learned);
  return { ...start, fit, workloads: fit.refusal?.reason === doesNotFit ? fit.refusal : [] };
}

/** As if the digests were recorded already, which the decision to start does. */
function withDigests(input: SlotInputs, digests: SlotInput["digests"]): SlotInputs {
  const { placement } = input;
  return { ...input, placement: { ...placement, lock: { ...placement.lock, ...digests } } };
}

/** The slot's memory needs, and whether the processes that do not run yet may be started. */
async function estimateOf(
  { fit, memory, starting }: Dependencies,
  { name, observed, before }: StartingSlot,
  { engineInput, workloads }: Pick<NextStart, "engineInput" | "workloads">,
  learned: Learned,
): Promise<FitResult> {
  if (isRefusal(workloads) || engineInput === undefined) return {};
  const isDue = !workloads.every((workload) => isRunning(workload, observed));
  const { state, readySince } = before?.status ?? {};
  const since = !isDue && state === "ready" && readySince !== undefined ? new Date(readySince) : undefined;
  const measured = memory.latest(name);
  const reserved = starting.beside(name);
  const found = await fit.estimate({ workloads, engineInput, isDue, readySince: since, measured, reserved, learned });
  // The memory of the loaded slot is the figure for the next start.
  if (since === undefined || (measured !== undefined && measured.at >= since)) return found;
  return { ...found, unlearned: [...(found.unlearned ?? []), { do: "measure", of: "processes" }] };
}
