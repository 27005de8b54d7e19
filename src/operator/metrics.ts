import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import { slotStates } from "../api/states.ts";
import type { PublishedSlot } from "../api/status.ts";
import type { IllegalMove } from "./illegal-moves.ts";
import type { WorkQueue } from "./queue.ts";
import { hardlyEverMs, mendProcessMetrics } from "../lib/loop-delays.ts";

const loadBuckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800];
const reconcileBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export type ReconcileOutcome = "success" | "requeue" | "error";

/**
 * The operator's metric page. Names are a contract with people's dashboards (CONTRACT "Metrics that others rely on").
 */
export class OperatorMetrics {
  readonly registry = new Registry();
  readonly #reconciles: Counter<"kind" | "outcome">;
  readonly #duration: Histogram<"kind">;
  readonly #transitions: Counter<"slot" | "to">;
  readonly #illegal: Counter<"slot" | "from" | "to">;
  readonly #restarts: Counter<"slot">;
  readonly #load: Histogram<"slot" | "phase">;
  readonly #state: Gauge<"slot" | "state">;
  readonly #memory: Gauge<"slot" | "device">;

  constructor(queue: () => Pick<WorkQueue, "depth" | "oldestAgeMs">) {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision: hardlyEverMs });
    mendProcessMetrics(this.registry, (gauge) => new Gauge({ ...gauge, registers }));
    this.#reconciles = new Counter({
      name: "berth_reconcile_total",
      help: "Reconciles by outcome",
      labelNames: ["kind", "outcome"],
      registers,
    });
    this.#duration = new Histogram({
      name: "berth_reconcile_duration_seconds",
      help: "Duration of a reconcile",
      labelNames: ["kind"],
      buckets: reconcileBuckets,
      registers,
    });
    this.#transitions = new Counter({
      name: "berth_slot_transitions_total",
      help: "Moves of a slot into a state",
      labelNames: ["slot", "to"],
      registers,
    });
    this.#illegal = new Counter({
      name: "berth_slot_illegal_transitions_total",
      help: "Moves that the table of states forbids: faults of the operator",
      labelNames: ["slot", "from", "to"],
      registers,
    });
    this.#restarts = new Counter({
      name: "berth_slot_restarts_total",
      help: "Engine starts that nobody asked for",
      labelNames: ["slot"],
      registers,
    });
    this.#load = new Histogram({
      name: "berth_slot_load_seconds",
      help: "Time a load spent per phase",
      labelNames: ["slot", "phase"],
      buckets: loadBuckets,
      registers,
    });
    this.#state = new Gauge({
      name: "berth_operator_slot_state",
      help: "1 for the state the operator has published last",
      labelNames: ["slot", "state"],
      registers,
    });
    this.#memory = new Gauge({
      name: "berth_slot_memory_bytes",
      help: "What the engine's processes hold, on the host and on each GPU",
      labelNames: ["slot", "device"],
      registers,
    });
    new Gauge({
      name: "berth_reconcile_queue_depth",
      help: "Keys that wait for a reconcile",
      registers,
      collect() {
        this.set(queue().depth);
      },
    });
    new Gauge({
      name: "berth_reconcile_queue_oldest_seconds",
      help: "How long the longest-waiting key has waited",
      registers,
      collect() {
        this.set(queue().oldestAgeMs / 1000);
      },
    });
  }

  reconciled(kind: string, outcome: ReconcileOutcome, seconds: number): void {
    this.#reconciles.inc({ kind, outcome });
    this.#duration.observe({ kind }, seconds);
  }

  /** Counts what a new status tells. Counters go on from what an earlier operator had published. */
  published(after: PublishedSlot, before: PublishedSlot | undefined): void {
    const slot = after.name;
    for (const [to, count] of Object.entries(after.status.counters.transitions)) {
      const grown = count - (before?.status.counters.transitions[to] ?? 0);
      if (grown > 0) this.#transitions.inc({ slot, to }, grown);
    }
    const restarts = after.status.counters.restarts - (before?.status.counters.restarts ?? 0);
    this.#restarts.inc({ slot }, Math.max(0, restarts));
    for (const state of slotStates) this.#state.set({ slot, state }, after.status.state === state ? 1 : 0);
    for (const device of devicesIn(before)) this.#memory.remove({ slot, device });
    const { hostBytes, devices = [] } = after.status.memory ?? {};
    if (hostBytes !== undefined) this.#memory.set({ slot, device: host }, hostBytes);
    for (const { id, bytes } of devices) this.#memory.set({ slot, device: id }, bytes);
    const load = after.status.lastLoad;
    const earlier = before?.status.lastLoad;
    if (load === undefined || before === undefined) return;
    const isNew = earlier?.startedAt !== load.startedAt;
    for (const [phase, key] of [
      ["pull", "pullSeconds"],
      ["start", "startSeconds"],
      ["warm", "warmSeconds"],
    ] as const) {
      const seconds = load[key];
      if (seconds !== undefined && (isNew || earlier?.[key] === undefined))
        this.#load.observe({ slot, phase }, seconds);
    }
  }

  movedIllegally({ slot, from, to }: IllegalMove): void {
    this.#illegal.inc({ slot, from, to });
  }

  /** `last`: what was published of it before it went. */
  deleted(slot: string, last: PublishedSlot | undefined): void {
    for (const device of devicesIn(last)) this.#memory.remove({ slot, device });
    for (const state of slotStates) this.#state.remove({ slot, state });
    this.#restarts.remove({ slot });
    for (const to of slotStates) {
      this.#transitions.remove({ slot, to });
      for (const from of slotStates) this.#illegal.remove({ slot, from, to });
    }
    for (const phase of ["pull", "start", "warm"]) this.#load.remove({ slot, phase });
  }
}

/** Label of the machine's own memory, beside GPUs' addresses. */
const host = "host";

function devicesIn(published: PublishedSlot | undefined): readonly string[] {
  return [host, ...(published?.status.memory?.devices ?? []).map(({ id }) => id)];
}
