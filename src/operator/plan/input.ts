import type { BenchmarkBasis } from "../../api/benchmark.ts";
import type { Compute } from "../../api/compute.ts";
import type { Fit } from "../../api/fit.ts";
import type { KeptContext } from "../../api/kept-context.ts";
import type { ModelRecord } from "../../api/model.ts";
import type { EngineProtocol, ProcessRole, RuntimeKind } from "../../api/names.ts";
import { processName, type ProcessRef } from "../../api/process-ref.ts";
import type { SlotSpec } from "../../api/slot.ts";
import type { PublishedSlot, SlotRequest, SlotStatus } from "../../api/status.ts";
import type { Observed, Workload } from "../../api/workload.ts";
import type { Derived, EngineRefusal } from "../../engines/engine.ts";
import type { Preparation } from "../../runtimes/runtime.ts";
import type { Diagnostic } from "../../store/store.ts";
import type { Grant } from "./grant.ts";
import type { Unlearned } from "./learning.ts";
import type { ModelChoice } from "./choose-model.ts";
import type { WantedModel } from "../../models/fetch/wanted-model.ts";

/** The names and ports that a slot lost to other slots. */
export interface SlotConflicts {
  /** The slot that holds the fixed port of this one. */
  readonly port: { readonly port: number; readonly holder: string } | undefined;
  /** Aliases that this slot did not get, with their holders. */
  readonly aliases: readonly { readonly alias: string; readonly holder: string }[];
}

/** The sum of all live gateways' demand for one slot. */
export interface SlotDemand {
  readonly held: number;
  readonly inFlight: number;
  readonly lastRequestAt: Date | undefined;
  readonly lastByteAt: Date | undefined;
  /** The lowest revision that a live gateway acts on; Infinity without gateways. */
  readonly seenRevision: number;
  /** Demand by model, under the ref that requests name. */
  readonly byRef: ReadonlyMap<
    string,
    { readonly held: number; readonly inFlight: number; readonly waitingSince: Date | undefined }
  >;
  /** Demand by process name; a process without an entry has no request. */
  readonly byProcess: Readonly<Record<string, { readonly inFlight: number; readonly lastByteAt: Date | undefined }>>;
}

/** The results of probing the present process; empty for a new process. */
export interface Health {
  readonly isHealthy: boolean;
  readonly isWarm: boolean;
  /** Failed probes in a row since it was last healthy. */
  readonly failures: number;
  readonly message: string;
  /** When it started, by the present setting of the clock; undefined: not observed yet. */
  readonly startedAt?: Date;
  /** When it first listened; start-up time ends and warm-up begins. */
  readonly listeningAt: Date | undefined;
  /** When a process that was ready lost its port: no request may be sent there. */
  readonly lostAt?: Date;
  /** The warm-up request failed: it is sent again at this time. */
  readonly warmUpAt?: Date;
  /** The engine refused the warm-up request, and would refuse another one: `message` has its sentence. */
  readonly isRefused?: true;
  /** The protocols that it answered when it became warm; undefined: not probed. */
  readonly protocols?: readonly EngineProtocol[];
  /** A probe is due; `isAwaited`: before anything is decided about it. Absent: none, or a prober sends them. */
  readonly probeDue?: { readonly isAdopted: boolean; readonly isAwaited: boolean };
}

/** Whether a slot should be loaded, and the reason. */
export type Wanted =
  | { readonly load: true; readonly reason: string }
  | {
      readonly load: false;
      readonly reason: "Deleted" | "Disabled" | "NotConfigured" | "Unloaded" | "ScaledToZero" | "UnloadedUntilRequest";
      readonly message: string;
    };

/** Whether the next request loads the slot. */
export function isOnCall(want: Wanted): boolean {
  return !want.load && (want.reason === "ScaledToZero" || want.reason === "UnloadedUntilRequest");
}

/** Everything that one decision about one slot may read: gathered first, frozen, judged by pure functions. */
export interface SlotInput {
  readonly name: string;
  readonly now: Date;
  /** The spec in force: the last valid one. Undefined when it was never valid. */
  readonly spec: SlotSpec | undefined;
  readonly specHash: string;
  /** False when no manifest defines the slot any more (or never has, for a built-in). */
  readonly isDeclared: boolean;
  /** The place where a person changes the slot. */
  readonly file: string | undefined;
  /** As the source counts; undefined: the operator counts. */
  readonly generation: number | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly diagnostics: readonly Diagnostic[];
  readonly conflicts: SlotConflicts;
  readonly before: PublishedSlot | undefined;
  readonly held: { readonly ref: string | undefined; readonly origin: "spec" | "swap" | "request" };
  /** The choice of that model, where requests choose it. */
  readonly onRequest?: ModelChoice;
  /** The models of `model.onRequest` that no Model declares and no file provides, with their place in the list. */
  readonly unknownRefs?: readonly { readonly ref: string; readonly at: number; readonly nearest: string | undefined }[];
  readonly model: ModelRecord | undefined;
  readonly requests: readonly SlotRequest[];
  /** The requests that were dated ahead of the clock: they count from now on, which must be written. */
  readonly redated: readonly SlotRequest[];
  readonly demand: SlotDemand;
  readonly want: Wanted;
  readonly observed: readonly Observed[];
  /** Results of probing, by process name. */
  readonly health: Readonly<Record<string, Health>>;
  readonly workloads: readonly Workload[] | EngineRefusal;
  /** The number of replicas without a port now. */
  readonly lacking?: number;
  /** Ports of workloads that do not run, if the slot does not hold them: leased before a start. */
  readonly unleased: readonly (ProcessRef & { readonly port: number })[];
  readonly runtime: RuntimeKind;
  /** That runtime fetches what an engine needs after the engine was asked for. */
  readonly pullsAfterStart?: true;
  readonly backend?: string;
  /** Why this runtime and backend. */
  readonly reasons?: { readonly runtime: string; readonly backend: string };
  /** The values that its adapter derives for a start, beyond runtime, backend and threads. */
  readonly derived?: Readonly<Record<string, Derived>>;
  /** The missing preparation of the next engine, for the first process that lacks something. */
  readonly unprepared?: Exclude<Preparation, { state: "ready" }> & {
    readonly role: ProcessRole;
    /** The model that is not here; absent: something else is not. */
    readonly model?: WantedModel;
    /** The model's header must be read before the model is fetched. */
    readonly isHeaderUnread?: true;
  };
  /** Digests of images that the workloads name without one: recorded before a start. */
  readonly digests: Readonly<Record<string, string>>;
  /** Why the runtime is unreachable now: `observed` is the last published state. Absent: it answers. */
  readonly runtimeError?: string;
  /** The devices that the main process reports. */
  readonly compute?: Compute;
  /** The memory of its processes, at the last notable change. */
  readonly memory?: SlotStatus["memory"];
  /** The last save, restore or loss of the context that the slot keeps over an unload. */
  readonly context?: KeptContext;
  /** The present facts on which a benchmark depends; absent: no result is kept. */
  readonly basis?: BenchmarkBasis;
  /** The slot's memory needs, by the best figure there is. */
  readonly fit?: Fit;
  /** Facts that must be learned before the decision is carried out; absent: none. */
  readonly unlearned?: readonly Unlearned[];
  /** The group whose budget the slot shares, and its grant; absent: no limit. */
  readonly group?: {
    readonly name: string;
    readonly grant: Grant;
    /** The answer to another need than the loaded engine's, and the need that it is about; absent: none was asked for. */
    readonly wanted?: { readonly key: string; readonly grant: Grant };
    readonly lentUntil?: string;
  };
  /** When another slot last released memory; undefined: not since this operator started. */
  readonly freedAt?: Date;
  readonly threads: { readonly value: number; readonly reason: string };
}

/** The results of probing that process. */
export function healthOf({ health }: Pick<SlotInput, "health">, process: ProcessRef): Health | undefined {
  return health[processName(process)];
}

/** The pending request of that kind. */
export function requestOf(input: Pick<SlotInput, "requests">, kind: SlotRequest["kind"]): SlotRequest | undefined {
  return input.requests.find((request) => request.kind === kind);
}

/** Milliseconds since the epoch of a published time; 0 without one. */
export function at(time: string | Date | undefined): number {
  return time === undefined ? 0 : new Date(time).getTime();
}

/** A time further ahead of the clock than this is from before the clock was set back. */
const aheadMs = 10_000;

/** Whether a time, in milliseconds since the epoch, is from before the clock was set back. */
export function isFromAhead(time: number, now: Date): boolean {
  return time - now.getTime() > aheadMs;
}
