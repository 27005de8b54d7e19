import { isBuiltin } from "../../api/names.ts";
import { completeSlot, unconfiguredSlot } from "../../api/slot.ts";
import type { Workload } from "../../api/workload.ts";
import { isRefusal, workloadsOf, type Engine, type SlotInputs } from "../../engines/engine.ts";
import { canonicalJson, sha256 } from "../../lib/canonical.ts";
import { describeOrigin } from "../../store/origin.ts";
import type { FitResult } from "./fit.ts";
import { doesNotFit } from "../plan/facts.ts";
import type { Health, SlotInput } from "../plan/input.ts";
import { benchmarkBasis } from "./benchmark-basis.ts";
import { demandOf } from "./demand.ts";
import { fitInGroup, groupOf } from "./group.ts";
import { chosenModel, declaredModel, unknownRefs } from "./held-model.ts";
import { observe, unlessUnreachable } from "./observation.ts";
import { modelPreparation, preparationOf } from "./preparation.ts";
import { isRefused, portsOf, processesOf, unleasedOf, workloadsFor } from "./ports.ts";
import { pendingRequests } from "./requested.ts";
import { nothingLearned, type Learned, type Unlearned } from "../plan/learning.ts";
import { onRequestOf } from "../plan/on-request.ts";
import { place, type Placed } from "../plan/placing.ts";
import { attemptOf } from "../plan/preparing.ts";
import { threadsOf } from "../plan/threads.ts";
import { wanted } from "../plan/wanted.ts";
import { isSameProcess, processName } from "../../api/process-ref.ts";
import type { Dependencies } from "../dependencies.ts";

/** The input of one decision, and the adapter's facts for the status. */
export interface Gathered {
  readonly input: SlotInput;
  readonly engine: Engine | undefined;
  readonly engineInput: SlotInputs | undefined;
  /** The claims of memory for starts when this was read. */
  readonly claims: number;
}

/**
 * Reads everything about one slot again: spec, requests, demand, processes, health, models, ports, and the state of
 * preparation. Only reads: nothing is sent, started, leased, fetched, measured or written before a decision says so.
 * `learned`: the results of the steps that this decision has waited for.
 */
export async function gather(
  dependencies: Dependencies,
  name: string,
  learned: Learned = nothingLearned,
): Promise<Gathered> {
  const claims = dependencies.starting.count;
  const desired = dependencies.source.get("Slot", name);
  const builtin = desired === undefined && isBuiltin(name) ? unconfiguredSlot(name) : undefined;
  const before = dependencies.published.get(name);
  // A slot whose manifest is gone is stopped by the rules of its last spec.
  const leftover =
    desired === undefined
      ? completeSlot(name, { ...(before?.spec ?? unconfiguredSlot("primary")), enabled: true })
      : undefined;
  const spec = desired?.spec ?? builtin ?? leftover;
  const pending = pendingRequests(dependencies.requests.list(name), dependencies.clock.now());
  const { requests } = pending;
  const observation = await observe(dependencies, name, spec, before);
  const { observed } = observation;
  let { silence } = observation;
  const now = dependencies.clock.now();
  const demand = demandOf(dependencies.demand.list(), name, now, desired?.since);
  const base = {
    name,
    now,
    spec,
    specHash: desired?.specHash ?? (builtin === undefined ? (before?.specHash ?? "") : sha256(canonicalJson(builtin))),
    isDeclared: desired !== undefined,
    ...pending,
    demand,
    observed,
    before,
  };
  const usual = declaredModel(spec, requests);
  const onRequest = onRequestOf(base, usual.ref);
  const held = chosenModel(onRequest, usual);
  const model = held.ref === undefined ? undefined : dependencies.models().get(held.ref);
  const engine = spec === undefined ? undefined : dependencies.engines[spec.engine];
  const placement = spec === undefined ? undefined : place(dependencies, name, spec, before, observed);
  let engineInput: SlotInputs | undefined =
    spec === undefined || placement === undefined
      ? undefined
      : {
          slot: name,
          spec,
          ref: held.ref,
          model,
          rerankModel: spec.model.rerank === undefined ? undefined : dependencies.models().get(spec.model.rerank),
          host: dependencies.host,
          placement: placement.placement,
          knownRefs: [...dependencies.models().keys()],
        };
  const refusal = placement?.refusal;
  const roles = engine === undefined || engineInput === undefined ? [] : engine.roles(engineInput);
  const threads = threadsOf(dependencies, name, spec, placement?.placement, observed);
  let workloads: SlotInput["workloads"] = [];
  let unleased: SlotInput["unleased"] = [];
  let lacking = 0;
  let preparation: Awaited<ReturnType<typeof preparationOf>> = { digests: {} };
  let fit: FitResult = {};
  const want = wanted(base);
  const group = groupOf(dependencies, name, spec);
  if (engine !== undefined && engineInput !== undefined && want.load) {
    const where = { slot: name, spec: engineInput.spec, addressing: engineInput.placement.addressing };
    const wantedProcesses = processesOf(roles, engineInput.spec);
    const placed = refusal ?? portsOf(dependencies, where, wantedProcesses, observed);
    if (!isRefused(placed)) {
      unleased = unleasedOf(dependencies, name, placed, observed);
      lacking = wantedProcesses.length - placed.length;
    }
    const make = (given: SlotInputs): SlotInput["workloads"] =>
      isRefused(placed)
        ? placed
        : workloadsFor(placed, (ports, ordinal) =>
            workloadsOf(engine, { ...given, threads: threads.value, ordinal, ports }),
          );
    workloads = make(engineInput);
    const lacks = await modelPreparation(dependencies, engineInput, workloads, observed, attemptOf(base));
    const unprepared = lacks === undefined ? undefined : dependencies.fit.beforeFetch(engineInput, lacks);
    if (unprepared !== undefined && !("state" in unprepared)) workloads = unprepared;
    else if (unprepared !== undefined) preparation = { ...preparation, unprepared };
    else if (silence === undefined && !isRefusal(workloads)) {
      const found = await unlessUnreachable(preparationOf(dependencies, workloads, observed, attemptOf(base)));
      if ("silence" in found) silence = found.silence;
      else {
        preparation = found;
        engineInput = withDigests(engineInput, found.digests);
        workloads = make(engineInput);
      }
    }
    if (silence === undefined)
      fit = fitInGroup(await fitOf(dependencies, engineInput, workloads, base, learned), { ...base, workloads }, group);
    workloads = fit.refusal ?? workloads;
  }
  if (engine !== undefined && engineInput !== undefined && !want.load && want.reason === "ScaledToZero") {
    // No port is looked up: the question is only whether the slot could be loaded.
    const ports = Object.fromEntries(roles.map((role, index) => [role, index + 1]));
    const made = refusal ?? workloadsOf(engine, { ...engineInput, threads: threads.value, ports });
    if (isRefusal(made)) workloads = made;
    else fit = await fitOf(dependencies, engineInput, made, base, learned);
    if (fit.refusal?.reason === doesNotFit) workloads = fit.refusal;
  }
  const health: Record<string, Health> = {};
  if (spec !== undefined) {
    for (const process of observed) {
      if (process.phase !== "running") continue;
      health[processName(process)] = dependencies.health.stateOf(process, spec, before, now, silence !== undefined);
    }
  }
  const main = observed.find(
    (process) =>
      process.role === "main" && process.phase === "running" && health[processName(process)]?.isWarm === true,
  );
  const compute =
    main !== undefined && engine !== undefined && engineInput !== undefined
      ? await dependencies.compute.read(main, engine, engineInput, before)
      : undefined;
  const basis = await benchmarkBasis(dependencies, { ...base, model, workloads });
  const memory = dependencies.memory.of(name);
  const context = dependencies.contexts.latest(name);
  const input: SlotInput = Object.freeze({
    ...base,
    want,
    now: dependencies.clock.now(),
    file: desired && describeOrigin(desired.origin),
    generation: desired?.generation,
    labels: desired?.labels ?? {},
    diagnostics: desired?.diagnostics ?? [],
    conflicts: dependencies.conflicts.of(name),
    held,
    ...(onRequest === undefined ? {} : { onRequest, unknownRefs: unknownRefs(spec, dependencies.models()) }),
    model,
    health,
    workloads,
    unleased,
    ...(lacking === 0 ? {} : { lacking }),
    runtime: placement?.placement.runtime ?? dependencies.runtime.alwaysThere,
    ...(placement === undefined ? {} : placedAs(dependencies, placement)),
    ...(engine?.derived === undefined || engineInput === undefined ? {} : { derived: engine.derived(engineInput) }),
    ...preparation,
    ...(silence === undefined ? {} : { silence }),
    ...(compute === undefined ? {} : { compute }),
    ...(basis === undefined ? {} : { basis }),
    ...(memory === undefined ? {} : { memory }),
    ...(fit.fit === undefined ? {} : { fit: fit.fit }),
    ...unlearnedOf(fit, preparation.unprepared),
    ...(context === undefined ? {} : { context }),
    ...freedBeside(dependencies, name),
    ...group,
    threads,
  });
  return { input, engine, engineInput, claims };
}

/** As if the digests were recorded already, which the decision to start does. */
function withDigests(input: SlotInputs, digests: SlotInput["digests"]): SlotInputs {
  const { placement } = input;
  return { ...input, placement: { ...placement, lock: { ...placement.lock, ...digests } } };
}

/** The slot's memory needs, and whether the processes that do not run yet may be started. */
async function fitOf(
  { fit, memory, starting }: Dependencies,
  engineInput: SlotInputs,
  workloads: SlotInput["workloads"],
  { name, observed, before }: Pick<SlotInput, "name" | "observed" | "before">,
  learned: Learned,
): Promise<FitResult> {
  if (isRefusal(workloads)) return {};
  const isRunning = (workload: Workload): boolean =>
    observed.some(
      (process) => isSameProcess(process, workload) && process.hash === workload.hash && process.phase === "running",
    );
  const isDue = !workloads.every(isRunning);
  const { state, readySince } = before?.status ?? {};
  const since = !isDue && state === "ready" && readySince !== undefined ? new Date(readySince) : undefined;
  const measured = memory.latest(name);
  const reserved = starting.beside(name);
  const found = await fit.estimate({ workloads, engineInput, isDue, readySince: since, measured, reserved, learned });
  // The memory of the loaded slot is the figure for the next start.
  if (since === undefined || (measured !== undefined && measured.at >= since)) return found;
  return { ...found, unlearned: [...(found.unlearned ?? []), { do: "measure", of: "processes" }] };
}

function placedAs(
  { runtime }: Pick<Dependencies, "runtime">,
  { placement, reasons }: Placed,
): Pick<SlotInput, "backend" | "reasons" | "pullsAfterStart"> {
  const { pullsAfterStart } = runtime.traitsOf(placement.runtime) ?? {};
  return { backend: placement.backend, reasons, ...(pullsAfterStart === undefined ? {} : { pullsAfterStart }) };
}

function unlearnedOf({ unlearned = [] }: FitResult, unprepared: SlotInput["unprepared"]): Pick<SlotInput, "unlearned"> {
  const { role, model, isHeaderUnread } = unprepared ?? {};
  const isUnread = isHeaderUnread === true && role !== undefined && model !== undefined;
  const all: readonly Unlearned[] = isUnread ? [{ do: "readHeader", role, model }, ...unlearned] : unlearned;
  return all.length === 0 ? {} : { unlearned: all };
}

function freedBeside(dependencies: Dependencies, name: string): Pick<SlotInput, "freedAt"> {
  const freedAt = dependencies.freed.beside(name);
  return freedAt === undefined ? {} : { freedAt };
}
