import type { ModelRecord } from "../api/model.ts";
import type { ProcessRole } from "../api/names.ts";
import type { PublishedSlot } from "../api/status.ts";
import type { Engine, EngineHost } from "../engines/engine.ts";
import type { EngineKind } from "../api/names.ts";
import type { runtimeKinds } from "../api/names.ts";
import type { Runtime } from "../runtimes/runtime.ts";
import type { DemandStore, DesiredSource, Publisher, RequestStore } from "../store/store.ts";
import type { ComputeBook } from "./compute.ts";
import type { ConflictIndex } from "./conflicts.ts";
import type { Containers } from "./placing.ts";
import type { FreedMemory } from "./freed-memory.ts";
import type { HealthBook } from "./health.ts";
import type { MemoryBook } from "./memory.ts";
import type { Backoff, Clock } from "./queue.ts";
import type { Written } from "./written.ts";

/** Ports of engines, leased so that two slots never get one and a restarted operator gives the same. */
export interface PortLeases {
  /** The port of that role, the same at every call until released; undefined when none is free. */
  reserve(slot: string, role: ProcessRole, fixed?: number, avoid?: ReadonlySet<number>): number | undefined;
  /** Who holds the port, as `slot/role`. */
  holder(port: number): string | undefined;
  /** Gives back one role's port, or all of the slot's. */
  release(slot: string, role?: ProcessRole): void;
}

/** Everything outside that a reconcile reads or acts on. Tests give a recorder for each. */
export interface World {
  readonly source: DesiredSource;
  readonly publisher: Publisher;
  readonly written: Written;
  readonly demand: DemandStore;
  readonly requests: RequestStore;
  readonly runtime: Runtime;
  readonly ports: PortLeases;
  readonly engines: Readonly<Record<EngineKind, Engine>>;
  readonly host: EngineHost;
  readonly health: HealthBook;
  readonly compute: ComputeBook;
  readonly memory: MemoryBook;
  readonly conflicts: ConflictIndex;
  readonly clock: Clock;
  readonly backoff: Backoff;
  readonly cores: number;
  /** What `SVC_RUNTIME` or the hardware chose for slots with `runtime: auto`. */
  readonly defaultRuntime: (typeof runtimeKinds)[number];
  readonly containers: Containers;
  /** When slots have given memory back, kept by the controller. */
  readonly freed: FreedMemory;
  /** Records by ref, kept by the controller. */
  models(): ReadonlyMap<string, ModelRecord>;
  /** What this operator has published last, by slot. */
  readonly published: Map<string, PublishedSlot>;
}
