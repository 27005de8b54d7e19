import type { ProcessRole } from "../api/names.ts";
import { isBuiltin } from "../api/names.ts";
import { completeSlot, unconfiguredSlot, type SlotSpec } from "../api/slot.ts";
import type { PublishedSlot, SlotRequest } from "../api/status.ts";
import type { Observed } from "../api/workload.ts";
import {
  everyPortTaken,
  isRefusal,
  workloadsOf,
  type Engine,
  type EngineRefusal,
  type SlotInputs,
} from "../engines/engine.ts";
import { canonicalJson, sha256 } from "../lib/canonical.ts";
import { RuntimeUnavailable } from "../runtimes/runtime-unavailable.ts";
import { isFromAhead, type Health, type SlotDemand, type SlotInput } from "./input.ts";
import { askedOf } from "./asked.ts";
import { place } from "./placing.ts";
import { attemptOf, prepare, type Missing } from "./preparing.ts";
import { threadsOf } from "./threads.ts";
import { wanted } from "./wanted.ts";
import type { World } from "./world.ts";

/** The input of one decision, and what the adapter says of it for the status. */
export interface Gathered {
  readonly input: SlotInput;
  readonly engine: Engine | undefined;
  readonly engineInput: SlotInputs | undefined;
}

/**
 * Reads everything about one slot again: spec, requests, demand, processes, health, models, ports. Unless it is paused,
 * what the next engine needs begins to be fetched.
 */
export async function gather(world: World, name: string, isPaused = false): Promise<Gathered> {
  const desired = world.source.get("Slot", name);
  const builtin = desired === undefined && isBuiltin(name) ? unconfiguredSlot(name) : undefined;
  const before = world.published.get(name);
  // A slot whose manifest is gone is stopped by the rules it ran under.
  const leftover =
    desired === undefined
      ? completeSlot(name, { ...(before?.spec ?? unconfiguredSlot("primary")), enabled: true })
      : undefined;
  const spec = desired?.spec ?? builtin ?? leftover;
  const requests = await askedOf(world, name, isPaused);
  const held = heldModel(spec, requests);
  const model = held.ref === undefined ? undefined : world.models().get(held.ref);
  const looked = await look(world, name, spec, before);
  const { observed } = looked;
  let { silence } = looked;
  const now = world.clock.now();
  const demand = demandOf(world, name, now, desired?.since);
  const base = {
    name,
    now,
    spec,
    specHash: desired?.specHash ?? (builtin === undefined ? (before?.specHash ?? "") : sha256(canonicalJson(builtin))),
    isDeclared: desired !== undefined,
    requests,
    demand,
    observed,
    before,
  };
  const engine = spec === undefined ? undefined : world.engines[spec.engine];
  const placed = spec === undefined ? undefined : place(world, name, spec, before, observed);
  let engineInput: SlotInputs | undefined =
    spec === undefined || placed === undefined
      ? undefined
      : {
          slot: name,
          spec,
          ref: held.ref,
          model,
          rerankModel: spec.model.rerank === undefined ? undefined : world.models().get(spec.model.rerank),
          host: world.host,
          placement: placed.placement,
          knownRefs: [...world.models().keys()],
        };
  const roles = engine === undefined || engineInput === undefined ? [] : engine.roles(engineInput);
  const threads = threadsOf(world, name, spec, placed?.placement.backend, observed);
  let workloads: SlotInput["workloads"] = [];
  let missing: Missing | undefined;
  const want = wanted(base);
  if (engine !== undefined && engineInput !== undefined && want.load) {
    const ports = placed?.refusal ?? reserve(world, name, spec, roles, observed);
    const make = (given: SlotInputs): SlotInput["workloads"] =>
      isRefused(ports) ? ports : workloadsOf(engine, { ...given, threads: threads.value, ports });
    workloads = make(engineInput);
    if (silence === undefined && !isPaused) {
      const attempt = attemptOf(base.specHash, requests);
      const prepared = await heard(prepare(world, workloads, observed, attempt));
      if ("silence" in prepared) silence = prepared.silence;
      else {
        missing = prepared.missing;
        if (prepared.hasLearned) {
          engineInput = { ...engineInput, placement: { ...engineInput.placement, lock: world.containers.lock() } };
          workloads = make(engineInput);
        }
      }
    }
  }
  if (engine !== undefined && engineInput !== undefined && !want.load && want.reason === "ScaledToZero") {
    // No port is leased for what is not wanted: only whether it could be loaded is asked.
    const ports = Object.fromEntries(roles.map((role, index) => [role, index + 1]));
    const made = placed?.refusal ?? workloadsOf(engine, { ...engineInput, threads: threads.value, ports });
    if (isRefusal(made)) workloads = made;
  }
  const health: Partial<Record<ProcessRole, Health>> = {};
  if (engine !== undefined && engineInput !== undefined && spec !== undefined) {
    for (const process of observed) {
      if (process.phase !== "running") continue;
      const target = engine.probe({ ...engineInput, ports: { [process.role]: process.port } }, process.role);
      health[process.role] = await world.health.look(process, target, spec, before, now, silence !== undefined);
    }
  }
  const main = observed.find(({ role, phase }) => role === "main" && phase === "running");
  const compute =
    main !== undefined && health.main?.isWarm === true && engine !== undefined && engineInput !== undefined
      ? await world.compute.look(main, engine, engineInput, before)
      : undefined;
  const memory = world.memory.of(name);
  const input: SlotInput = Object.freeze({
    ...base,
    now: world.clock.now(),
    file: desired?.file,
    labels: desired?.labels ?? {},
    diagnostics: desired?.diagnostics ?? [],
    conflicts: world.conflicts.of(name),
    held,
    model,
    health,
    roles,
    workloads,
    runtime: placed?.placement.runtime ?? "process",
    ...(placed === undefined ? {} : { backend: placed.placement.backend, reasons: placed.reasons }),
    ...(engine?.derived === undefined || engineInput === undefined ? {} : { derived: engine.derived(engineInput) }),
    ...(missing === undefined ? {} : { missing }),
    ...(silence === undefined ? {} : { silence }),
    ...(compute === undefined ? {} : { compute }),
    ...(memory === undefined ? {} : { memory }),
    ...freedBeside(world, name),
    threads,
  });
  return { input, engine, engineInput };
}

function freedBeside(world: World, name: string): Pick<SlotInput, "freedAt"> {
  const freedAt = world.freed.beside(name);
  return freedAt === undefined ? {} : { freedAt };
}

/** A swap holds until the manifest names another model than the one it was made against. */
function heldModel(spec: SlotSpec | undefined, requests: readonly SlotRequest[]): SlotInput["held"] {
  const swap = requests.find(({ kind }) => kind === "swap-model");
  const declared = spec?.model.default;
  return swap?.model !== undefined && swap.specModel === declared
    ? { ref: swap.model, origin: "swap" }
    : { ref: declared, origin: "spec" };
}

/** What was asked of an earlier slot of that name is no demand for this one, which is there since `since`. */
function demandOf(world: World, name: string, now: Date, since: Date | undefined): SlotDemand {
  let held = 0;
  let inFlight = 0;
  let seenRevision = Infinity;
  let lastRequestAt: Date | undefined;
  let lastByteAt: Date | undefined;
  for (const gateway of world.demand.list()) {
    const slot = gateway.slots[name];
    seenRevision = Math.min(seenRevision, slot?.seenRevision ?? 0);
    if (slot === undefined) continue;
    held += slot.held;
    inFlight += slot.inFlight;
    lastRequestAt = later(lastRequestAt, slot.lastRequestAt);
    lastByteAt = later(lastByteAt, slot.lastByteAt);
  }
  if (lastRequestAt !== undefined && since !== undefined && lastRequestAt < since) lastRequestAt = undefined;
  // Status has it, by the clock as it is set now.
  if (lastRequestAt !== undefined && isFromAhead(lastRequestAt.getTime(), now)) lastRequestAt = undefined;
  return { held, inFlight, lastRequestAt, lastByteAt, seenRevision };
}

function later(known: Date | undefined, time: string | undefined): Date | undefined {
  if (time === undefined) return known;
  const date = new Date(time);
  return known === undefined || date > known ? date : known;
}

/**
 * What runs of the slot. Where the runtime that it concerns cannot be asked, what was last published counts as running:
 * only probes can tell then, and nothing is started or stopped.
 */
async function look(
  world: World,
  name: string,
  spec: SlotSpec | undefined,
  before: PublishedSlot | undefined,
): Promise<{ readonly observed: readonly Observed[]; readonly silence?: string }> {
  const asked = spec?.runtime === "auto" ? world.defaultRuntime : spec?.runtime;
  const ranIn = before?.status.processes.some((process) => process.containerId !== undefined) === true;
  const isDocker = (asked === "docker" && spec?.enabled === true) || ranIn || before?.status.runtime === "docker";
  try {
    return { observed: await world.runtime.observe(name, isDocker ? ["docker"] : []) };
  } catch (error) {
    if (!(error instanceof RuntimeUnavailable)) throw error;
    return { observed: lastPublished(name, before), silence: error.message };
  }
}

/** A runtime may go silent between two questions. */
async function heard<T extends object>(answer: Promise<T>): Promise<T | { readonly silence: string }> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof RuntimeUnavailable)) throw error;
    return { silence: error.message };
  }
}

function lastPublished(slot: string, before: PublishedSlot | undefined): readonly Observed[] {
  const { processes = [], workloadHash = "" } = before?.status ?? {};
  return processes.flatMap(({ role, port, containerId, startedAt }) =>
    containerId === undefined || startedAt === undefined
      ? []
      : [
          {
            slot,
            role,
            port,
            hash: workloadHash,
            phase: "running" as const,
            isListening: true,
            isPortTaken: false,
            startedAt: new Date(startedAt),
            ...(before?.bearers?.[role] === undefined ? {} : { bearer: before.bearers[role] }),
            id: { containerId },
          },
        ],
  );
}

type Ports = Partial<Record<ProcessRole, number>>;

function isRefused(ports: Ports | EngineRefusal): ports is EngineRefusal {
  return "reason" in ports;
}

/**
 * A port for every role. What runs keeps its port until it is stopped; a port that the manifest fixes is leased only
 * then. All or none: ports of half a slot would keep another from starting.
 */
function reserve(
  world: World,
  name: string,
  spec: SlotSpec | undefined,
  roles: readonly ProcessRole[],
  observed: readonly Observed[],
): Ports | EngineRefusal {
  const ports: Ports = {};
  const isRunning = (role: ProcessRole): boolean =>
    observed.some((process) => process.role === role && process.phase === "running");
  for (const role of roles) {
    const fixed = role === "main" ? spec?.port : undefined;
    const running = observed.find((process) => process.role === role && process.phase === "running");
    const owner = `${name}/${role}`;
    const holder = fixed === undefined ? undefined : world.ports.holder(fixed);
    if (fixed !== undefined && holder !== undefined && holder !== owner) {
      const message = `port ${fixed} is in use by slot ${holder.split("/")[0]} until that one is stopped`;
      return { reason: "PortInUse", message };
    }
    // Also adopted ports are leased, so that no automatic port collides with them.
    const leased = world.ports.reserve(name, role, running?.port ?? fixed, world.conflicts.portsFixedByOthers(name));
    const port = fixed ?? running?.port ?? leased;
    if (port === undefined) {
      for (const other of roles) if (!isRunning(other)) world.ports.release(name, other);
      return everyPortTaken;
    }
    ports[role] = port;
  }
  return ports;
}
