import { completeSlot, slotSpecSchema, type SlotSpec, type SlotSpecInput } from "../../src/api/slot.ts";
import { emptyStatus, type PublishedSlot, type SlotStatus } from "../../src/api/status.ts";
import type { Observed, Workload } from "../../src/api/workload.ts";
import { wanted } from "../../src/operator/plan/wanted.ts";
import type { Health, SlotInput } from "../../src/operator/plan/input.ts";
import type { Outcome } from "../../src/operator/report/outcome.ts";

export const epoch = new Date("2026-01-01T00:00:00.000Z");
export const later = (seconds: number): Date => new Date(epoch.getTime() + seconds * 1000);

/** A whole spec of a slot. */
export function specOf(spec: SlotSpecInput = { model: { default: "tiny" } }, slot = "primary"): SlotSpec {
  return completeSlot(slot, slotSpecSchema.parse(spec));
}

export function workload(overrides: Partial<Workload> = {}): Workload {
  return {
    slot: "primary",
    role: "main",
    ordinal: 0,
    hash: "hash-1",
    runtime: "process",
    command: ["/bin/llama-server", "--port", "8081"],
    env: {},
    workingDir: undefined,
    port: 8081,
    stopSeconds: 30,
    ...overrides,
  };
}

export function observed(overrides: Partial<Observed> = {}): Observed {
  return {
    slot: "primary",
    role: "main",
    ordinal: 0,
    hash: "hash-1",
    host: "127.0.0.1",
    port: 8081,
    phase: "running",
    isListening: true,
    isPortTaken: false,
    startedAt: epoch,
    id: { pid: 4711 },
    ...overrides,
  };
}

/** No request, and no gateway that would have to confirm anything. */
export const noDemand: SlotInput["demand"] = {
  held: 0,
  inFlight: 0,
  lastRequestAt: undefined,
  lastByteAt: undefined,
  seenRevision: Infinity,
  byRef: new Map(),
  byProcess: {},
};

export const warm: Health = { isHealthy: true, isWarm: true, failures: 0, message: "", listeningAt: epoch };
export const cold: Health = { isHealthy: false, isWarm: false, failures: 0, message: "", listeningAt: undefined };

export function status(overrides: Partial<SlotStatus> = {}): SlotStatus {
  return {
    ...emptyStatus,
    state: "ready",
    observedGeneration: 1,
    model: { ref: "tiny", origin: "spec", served: "tiny" },
    capabilities: ["chat", "completions"],
    decisions: { threads: { value: "1", reason: "test" } },
    processes: [
      {
        role: "main",
        ordinal: 0,
        host: "127.0.0.1",
        port: 8081,
        endpoint: "http://127.0.0.1:8081",
        pid: 4711,
        isReady: true,
      },
    ],
    readySince: epoch.toISOString(),
    ...overrides,
  };
}

export function published(overrides: Partial<SlotStatus> = {}, slot: Partial<PublishedSlot> = {}): PublishedSlot {
  return {
    schema: 1,
    name: "primary",
    revision: 7,
    generation: 1,
    specHash: "spec-1",
    file: "/config/slots/primary.toml",
    labels: {},
    spec: slotSpecSchema.parse({ model: { default: "tiny" } }),
    status: status(overrides),
    plan: { reason: "Loaded", message: "tiny is loaded", steps: [] },
    ...slot,
  };
}

/** A slot that is declared, always loaded, and of which nothing runs yet. */
export function input(given: InputOverrides = {}): SlotInput {
  const made = withoutWant(given);
  return { ...made, want: given.want ?? wanted(made) };
}

type InputOverrides = Partial<Omit<SlotInput, "spec">> & { spec?: SlotSpecInput };

function withoutWant(overrides: InputOverrides): Omit<SlotInput, "want"> {
  const { spec, ...rest } = overrides;
  return {
    name: "primary",
    now: later(100),
    spec: specOf(spec),
    specHash: "spec-1",
    isDeclared: true,
    file: "/config/slots/primary.toml",
    generation: undefined,
    labels: {},
    diagnostics: [],
    conflicts: { port: undefined, aliases: [] },
    before: undefined,
    held: { ref: "tiny", origin: "spec" },
    model: undefined,
    requests: [],
    redated: [],
    demand: noDemand,
    observed: [],
    health: {},
    workloads: [workload()],
    unleased: [],
    digests: {},
    runtime: "process",
    threads: { value: 1, reason: "test" },
    ...rest,
  };
}

/** What is seen after a decision that changed nothing. */
export function outcomeOf({ observed: seen, health }: SlotInput, more: Partial<Outcome> = {}): Outcome {
  const nothing = { stopping: [], draining: [], started: [], capabilities: [], protocols: [], served: undefined };
  return { observed: seen, health, ...nothing, handledRequests: {}, ...more };
}
