import { collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { fitStages } from "../../api/fit.ts";
import { operatorMetrics as families } from "../../api/metrics/operator.ts";
import { slotStates } from "../../api/states.ts";
import type { PublishedSlot } from "../../api/status.ts";
import { GroupMetrics } from "./group-metrics.ts";
import type { WorkQueue } from "../queue.ts";
import type { MemoryLeft } from "../../lib/memory-left.ts";
import { hardlyEverMs, mendProcessMetrics } from "../../lib/loop-delays.ts";
import type { ValueFamily } from "../../lib/metrics/families.ts";
import type { HistogramFamily } from "../../lib/metrics/histogram.ts";
import { MetricPage } from "../../lib/metrics/page.ts";
import { labelText } from "../../lib/metrics/spec.ts";
import { GpuMemory, type GpuFacts } from "./gpu-memory.ts";

export type ReconcileOutcome = "success" | "requeue" | "error";

/** Figures that are read anew for each page. */
export interface MetricSources {
  readonly pulls?: () => { readonly receivedBytes: number; readonly stalls: number };
  /** Seconds without a byte, by model. */
  readonly idlePulls?: () => ReadonlyMap<string, number>;
  /** Undefined: no engine shares this machine's memory, or it cannot be read. */
  readonly memory?: () => Promise<MemoryLeft | undefined>;
  /** The GPUs now; asked at most once a minute. */
  readonly gpus?: () => Promise<readonly GpuFacts[]>;
}

/** The kinds of resource that a reconcile is for. */
export const reconciledKinds = ["Registry", "Group", "Pull", "Slot"] as const;

/** The operator's metric page (docs/metrics.md). Names are a contract with people's dashboards. */
export class OperatorMetrics {
  readonly page: MetricPage;
  readonly groups: GroupMetrics;
  readonly #reconciles: ValueFamily<"kind" | "outcome">;
  readonly #duration: HistogramFamily<"kind">;
  readonly #transitions: ValueFamily<"slot" | "to">;
  readonly #restarts: ValueFamily<"slot" | "reason">;
  readonly #failures: ValueFamily<"slot">;
  readonly #repairs: ValueFamily<"slot" | "reason">;
  readonly #load: HistogramFamily<"slot" | "phase">;
  readonly #state: ValueFamily<"slot" | "state">;
  readonly #memory: ValueFamily<"slot" | "device">;
  readonly #replicas: ValueFamily<"slot" | "state">;
  readonly #fitError: ValueFamily<"slot" | "stage">;
  /** The reasons of each slot's restarts so far. */
  readonly #reasons = new Map<string, Set<string>>();

  constructor(queue: () => Pick<WorkQueue, "depth" | "oldestAgeMs">, sources: MetricSources = {}) {
    const pulls = sources.pulls ?? ((): { receivedBytes: number; stalls: number } => ({ receivedBytes: 0, stalls: 0 }));
    const ofProcess = new Registry();
    collectDefaultMetrics({ register: ofProcess, eventLoopMonitoringPrecision: hardlyEverMs });
    mendProcessMetrics(ofProcess, (gauge) => new Gauge({ ...gauge, registers: [ofProcess] }));
    const page = new MetricPage(ofProcess);
    this.page = page;
    page.read(families.pullBytes, () => [["", pulls().receivedBytes]]);
    page.read(families.pullStalls, () => [["", pulls().stalls]]);
    page.read(families.pullIdle, function* () {
      for (const [ref, seconds] of sources.idlePulls?.() ?? [])
        yield [labelText(families.pullIdle.labels, { ref }), seconds];
    });
    this.#reconciles = page.values(families.reconciles);
    // A counter that begins with 1 has not grown: alerts would miss the first error.
    for (const kind of reconciledKinds) this.#reconciles.series({ kind, outcome: "error" });
    this.#duration = page.histogram(families.reconcileDuration);
    this.#transitions = page.values(families.transitions);
    this.#restarts = page.values(families.restarts);
    this.#failures = page.values(families.failures);
    this.#repairs = page.values(families.repairs);
    this.#load = page.histogram(families.load);
    this.#state = page.values(families.state);
    this.#replicas = page.values(families.replicas);
    this.#memory = page.values(families.memory);
    this.#fitError = page.values(families.fitError);
    page.read(families.queueDepth, () => [["", queue().depth]]);
    page.read(families.queueOldest, () => [["", queue().oldestAgeMs / 1000]]);
    this.#exportMachine(sources);
    this.groups = new GroupMetrics(page);
  }

  #exportMachine({ memory, gpus }: MetricSources): void {
    const { page } = this;
    let left: MemoryLeft | undefined;
    page.before(async () => {
      left = await memory?.();
    });
    page.read(families.hostMemoryTotal, () => (left === undefined ? [] : [["", left.totalBytes]]));
    page.read(families.hostMemoryAvailable, () => (left === undefined ? [] : [["", left.availableBytes]]));
    const gpuMemory = new GpuMemory(gpus);
    page.read(families.gpuMemoryTotal, () => gpuMemory.samples("totalBytes"));
    page.read(families.gpuMemoryFree, () => gpuMemory.samples("freeBytes"));
  }

  reconciled(kind: string, outcome: ReconcileOutcome, seconds: number): void {
    this.#reconciles.add({ kind, outcome });
    this.#duration.series({ kind }).observe(seconds);
  }

  /** Counts the changes of a new status. Counters continue from an earlier operator's published values. */
  published(after: PublishedSlot, before: PublishedSlot | undefined): void {
    const slot = after.name;
    for (const [to, count] of Object.entries(after.status.counters.transitions)) {
      const grown = count - (before?.status.counters.transitions[to] ?? 0);
      if (grown > 0) this.#transitions.add({ slot, to }, grown);
    }
    const restarts = after.status.counters.restarts - (before?.status.counters.restarts ?? 0);
    this.#restarted(after, before, restarts);
    this.#failures.set({ slot }, after.status.failures);
    for (const state of slotStates) this.#state.set({ slot, state }, after.status.state === state ? 1 : 0);
    const mains = after.status.processes.filter(({ role }) => role === "main");
    this.#replicas.set({ slot, state: "wanted" }, after.spec.replicas ?? 1);
    this.#replicas.set({ slot, state: "ready" }, mains.filter(({ isReady }) => isReady).length);
    for (const device of devicesIn(before)) this.#memory.remove({ slot, device });
    const { hostBytes, devices = [] } = after.status.memory ?? {};
    if (hostBytes !== undefined) this.#memory.set({ slot, device: host }, hostBytes);
    for (const { id, bytes } of devices) this.#memory.set({ slot, device: id }, bytes);
    for (const stage of fitStages) {
      const error = after.status.fit?.stages.find((figure) => figure.stage === stage)?.errorRatio;
      if (error === undefined) this.#fitError.remove({ slot, stage });
      else this.#fitError.set({ slot, stage }, error);
    }
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
        this.#load.series({ slot, phase }).observe(seconds);
    }
  }

  /** The reason of a restart is that of the failure before. */
  #restarted(after: PublishedSlot, before: PublishedSlot | undefined, count: number): void {
    const slot = after.name;
    const isOwn = before !== undefined && count > 0;
    const reason = isOwn ? ((before.status.lastError ?? after.status.lastError)?.reason ?? "Unknown") : "Earlier";
    if (before !== undefined && count <= 0) return;
    this.#restarts.add({ slot, reason }, Math.max(0, count));
    this.#reasons.set(slot, (this.#reasons.get(slot) ?? new Set()).add(reason));
  }

  repaired(slot: string, reason: string): void {
    this.#repairs.add({ slot, reason });
  }

  /** `last`: its last published state. */
  deleted(slot: string, last: PublishedSlot | undefined): void {
    for (const device of devicesIn(last)) this.#memory.remove({ slot, device });
    for (const state of ["wanted", "ready"]) this.#replicas.remove({ slot, state });
    for (const stage of fitStages) this.#fitError.remove({ slot, stage });
    for (const state of slotStates) this.#state.remove({ slot, state });
    this.#repairs.remove({ slot, reason: "Paused" });
    for (const reason of this.#reasons.get(slot) ?? []) this.#restarts.remove({ slot, reason });
    this.#reasons.delete(slot);
    this.#failures.remove({ slot });
    for (const to of slotStates) this.#transitions.remove({ slot, to });
    for (const phase of ["pull", "start", "warm"]) this.#load.remove({ slot, phase });
  }
}

/** Label of the machine's own memory, beside GPUs' addresses. */
const host = "host";

function devicesIn(published: PublishedSlot | undefined): readonly string[] {
  return [host, ...(published?.status.memory?.devices ?? []).map(({ id }) => id)];
}
