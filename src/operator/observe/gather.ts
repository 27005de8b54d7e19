import type { Compute } from "../../api/compute.ts";
import { isBuiltin } from "../../api/names.ts";
import { processName } from "../../api/process-ref.ts";
import { completeSlot, unconfiguredSlot } from "../../api/slot.ts";
import type { PublishedSlot } from "../../api/status.ts";
import type { Engine, SlotInputs } from "../../engines/engine.ts";
import { hostFor } from "../../engines/llama-program.ts";
import { canonicalJson, sha256 } from "../../lib/canonical.ts";
import { describeOrigin } from "../../store/origin.ts";
import type { Desired } from "../../store/store.ts";
import type { Dependencies } from "../dependencies.ts";
import type { Health, SlotInput } from "../plan/input.ts";
import { nothingLearned, type Learned, type Unlearned } from "../plan/learning.ts";
import { onRequestOf } from "../plan/on-request.ts";
import { place, type Placed } from "../plan/placing.ts";
import { threadsOf } from "../plan/threads.ts";
import { wanted } from "../plan/wanted.ts";
import { benchmarkBasis } from "./benchmark-basis.ts";
import { demandOf } from "./demand.ts";
import type { FitResult } from "./fit.ts";
import { groupOf } from "./group.ts";
import { chosenModel, declaredModel, unknownRefs } from "./held-model.ts";
import { nextStart } from "./next-start.ts";
import { observe } from "./observation.ts";
import { pendingRequests } from "./requested.ts";

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
  const before = dependencies.published.get(name);
  const declared = specInForce(name, desired, before);
  const { spec } = declared;
  const pending = pendingRequests(dependencies.requests.list(name), dependencies.clock.now());
  const observation = await observe(dependencies, name, spec, before);
  const { observed } = observation;
  const now = dependencies.clock.now();
  const demand = demandOf(dependencies.demand.list(), name, now, desired?.since);
  const base = { name, now, ...declared, ...pending, demand, observed, before };
  const model = modelOf(dependencies, base);
  const engine = spec === undefined ? undefined : dependencies.engines[spec.engine];
  const placed = spec === undefined ? undefined : place(dependencies, name, spec, before, observed);
  const declaredInput = engineInputOf(dependencies, base, model, placed);
  const starting =
    engine === undefined || declaredInput === undefined
      ? undefined
      : { engine, engineInput: declaredInput, roles: engine.roles(declaredInput), refusal: placed?.refusal };
  const threads = threadsOf(dependencies, name, spec, placed?.placement, observed);
  const want = wanted(base);
  const group = groupOf(dependencies, name, spec);
  const slot = { ...base, ...observation, ...group, want, threads };
  const start = await nextStart(dependencies, slot, starting, learned);
  const { workloads, unleased, lacking, preparation, fit, runtimeError } = start;
  const engineInput = start.engineInput ?? declaredInput;
  const health = healthOfProcesses(dependencies, base, runtimeError !== undefined);
  const compute = await computeOf(dependencies, base, health, { engine, engineInput });
  const basis = await benchmarkBasis(dependencies, { ...base, model: model.model, workloads });
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
    ...model,
    health,
    workloads,
    unleased,
    ...(lacking === 0 ? {} : { lacking }),
    runtime: placed?.placement.runtime ?? dependencies.runtime.alwaysThere,
    ...(placed === undefined ? {} : placedAs(dependencies, placed)),
    ...(engine?.derived === undefined || engineInput === undefined ? {} : { derived: engine.derived(engineInput) }),
    ...preparation,
    ...(runtimeError === undefined ? {} : { runtimeError }),
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

/** The declared spec, that of a built-in slot without a manifest, or the last one: a slot is stopped by its rules. */
function specInForce(
  name: string,
  desired: Desired<"Slot"> | undefined,
  before: PublishedSlot | undefined,
): Pick<SlotInput, "spec" | "specHash" | "isDeclared"> {
  if (desired !== undefined) return { spec: desired.spec, specHash: desired.specHash, isDeclared: true };
  if (isBuiltin(name)) {
    const spec = unconfiguredSlot(name);
    return { spec, specHash: sha256(canonicalJson(spec)), isDeclared: false };
  }
  const spec = completeSlot(name, { ...(before?.spec ?? unconfiguredSlot("primary")), enabled: true });
  return { spec, specHash: before?.specHash ?? "", isDeclared: false };
}

/** The model that the slot is to hold. */
function modelOf(
  dependencies: Pick<Dependencies, "models">,
  base: Parameters<typeof onRequestOf>[0] & Pick<SlotInput, "spec" | "requests">,
): Pick<SlotInput, "held" | "onRequest" | "unknownRefs" | "model"> {
  const { spec, requests } = base;
  const declared = declaredModel(spec, requests);
  const onRequest = onRequestOf(base, declared.ref);
  const held = chosenModel(onRequest, declared);
  const model = held.ref === undefined ? undefined : dependencies.models().get(held.ref);
  if (onRequest === undefined) return { held, model };
  return { held, onRequest, unknownRefs: unknownRefs(spec, dependencies.models()), model };
}

function engineInputOf(
  { models, host }: Pick<Dependencies, "models" | "host">,
  { name, spec }: Pick<SlotInput, "name" | "spec">,
  { held, model }: Pick<SlotInput, "held" | "model">,
  placed: Placed | undefined,
): SlotInputs | undefined {
  if (spec === undefined || placed === undefined) return undefined;
  return {
    slot: name,
    spec,
    ref: held.ref,
    model,
    rerankModel: spec.model.rerank === undefined ? undefined : models().get(spec.model.rerank),
    host: hostFor(spec, host),
    placement: placed.placement,
    knownRefs: [...models().keys()],
  };
}

/** By the name of each running process. `isUnreachable`: only a probe can show the state of a process. */
function healthOfProcesses(
  { health }: Pick<Dependencies, "health">,
  { spec, observed, before, now }: Pick<SlotInput, "spec" | "observed" | "before" | "now">,
  isUnreachable: boolean,
): Record<string, Health> {
  if (spec === undefined) return {};
  const running = observed.filter(({ phase }) => phase === "running");
  return Object.fromEntries(
    running.map((process) => [processName(process), health.stateOf(process, before, now, isUnreachable)]),
  );
}

/** The devices that the main process reports, once it is warm. */
async function computeOf(
  { compute }: Pick<Dependencies, "compute">,
  { observed, before }: Pick<SlotInput, "observed" | "before">,
  health: SlotInput["health"],
  { engine, engineInput }: Pick<Gathered, "engine" | "engineInput">,
): Promise<Compute | undefined> {
  const main = observed.find(
    (process) =>
      process.role === "main" && process.phase === "running" && health[processName(process)]?.isWarm === true,
  );
  if (main === undefined || engine === undefined || engineInput === undefined) return undefined;
  return await compute.read(main, engine, engineInput, before);
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
