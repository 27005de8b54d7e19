import type { ModelRecord } from "../api/model.ts";
import type { PublishedSlot } from "../api/status.ts";
import type { Engine, EngineHost } from "../engines/engine.ts";
import type { EngineKind } from "../api/names.ts";
import type { runtimeKinds } from "../api/names.ts";
import type { ModelPulls } from "../models/fetch/model-pulls.ts";
import type { Runtimes } from "../runtimes/runtime.ts";
import type { GroupStore } from "../store/state/groups.ts";
import type { DemandStore, DesiredSource, Publisher, RequestStore } from "../store/store.ts";
import type { EngineContexts } from "./contexts/contexts.ts";
import type { Learning } from "./act/learning.ts";
import type { ComputeRecords } from "./observe/compute.ts";
import type { ConflictIndex } from "./observe/conflicts.ts";
import type { Images, Machine } from "./plan/placing.ts";
import type { FitRecords } from "./observe/fit.ts";
import type { FreedMemory } from "./observe/freed-memory.ts";
import type { GroupLedger } from "./groups/ledger.ts";
import type { HealthRecords } from "./observe/health.ts";
import type { MemoryRecords } from "./observe/memory.ts";
import type { StartingMemory } from "./observe/starting-memory.ts";
import type { Backoff } from "./plan/backoff.ts";
import type { Clock } from "./queue.ts";
import type { ProcessRef, SlotProcess } from "../api/process-ref.ts";
import type { PublishedWriter } from "./report/written.ts";
import type { SlotMemories } from "./slot-memory.ts";

/**
 * Ports of engines, leased so that two slots never get the same one and a restarted operator assigns the same again.
 */
export interface PortLeases {
  /** The port that the process holds, else a free one that is not in `avoid`; undefined without one. Leases nothing. */
  find(process: SlotProcess, avoid: ReadonlySet<number>): number | undefined;
  /** Leases that port to the process; undefined when another has it. */
  reserve(process: SlotProcess, port: number): number | undefined;
  /** The holder of the port, as `processKey` names it. */
  holder(port: number): string | undefined;
  /** Releases one process's port, or all of the slot's. */
  release(slot: string, process?: ProcessRef): void;
}

/** The part of `ModelPulls` that slots and the conditions of models use. */
export type SlotPulls = Pick<ModelPulls, "preparation" | "join" | "keepOnly" | "list">;

/** Everything outside that a reconcile reads or acts on. Tests give a recorder for each. */
export interface Dependencies {
  readonly source: DesiredSource;
  readonly publisher: Publisher;
  readonly written: PublishedWriter;
  readonly demand: DemandStore;
  readonly requests: RequestStore;
  readonly runtime: Runtimes;
  readonly ports: PortLeases;
  readonly engines: Readonly<Record<EngineKind, Engine>>;
  readonly host: EngineHost;
  readonly health: HealthRecords;
  readonly compute: ComputeRecords;
  readonly contexts: Pick<
    EngineContexts,
    "latest" | "prepared" | "refused" | "ended" | "save" | "restore" | "left" | "forget" | "sweep"
  >;
  readonly memory: MemoryRecords;
  readonly fit: Pick<FitRecords, "estimate" | "beforeFetch">;
  readonly learning: Pick<Learning, "learn">;
  readonly conflicts: ConflictIndex;
  readonly clock: Clock;
  readonly backoff: Backoff;
  readonly cores: number;
  /** The runtime that `SVC_RUNTIME` or the hardware chose for slots with `runtime: auto`. */
  readonly defaultRuntime: (typeof runtimeKinds)[number];
  /** The slots of each group that may be loaded. */
  readonly groups: GroupLedger;
  readonly groupStore: Pick<GroupStore, "loan" | "endLoan" | "publish" | "watch">;
  readonly machine: Machine;
  readonly images: Images;
  readonly pulls: SlotPulls;
  /** When slots released memory, kept by the controller. */
  readonly freed: FreedMemory;
  /** The memory of GPUs that slots which are being loaded are about to take. */
  readonly starting: StartingMemory;
  /** Records by ref, kept by the controller. */
  models(): ReadonlyMap<string, ModelRecord>;
  /** This operator's last published state, by slot. */
  readonly published: Map<string, PublishedSlot>;
  readonly memories: SlotMemories;
}
