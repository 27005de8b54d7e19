import type { FieldProblem, SlotSpec } from "../api/slot.ts";
import type { Kind } from "../api/names.ts";
import type { ModelSpec } from "../api/model.ts";
import type {
  Demand,
  PublishedOperator,
  PublishedRegistry,
  PublishedSlot,
  RequestKind,
  SlotRequest,
} from "../api/status.ts";
import type { SlotGroupSpec } from "../api/slot-group.ts";
import type { UpstreamSpec } from "../api/upstream.ts";
import type { Origin } from "./origin.ts";
import type { Liveness } from "./state/liveness.ts";

export interface SpecByKind {
  Slot: SlotSpec;
  Model: ModelSpec;
  Upstream: UpstreamSpec;
  SlotGroup: SlotGroupSpec;
}

/** Why a file or document gives no new spec. Line and column count from 1. */
export interface Diagnostic {
  readonly reason: "InvalidSpec" | "DuplicateResource" | "Unreadable";
  readonly file: string;
  readonly line?: number;
  readonly column?: number;
  /** Field path, e.g. `model.default`. */
  readonly path?: FieldProblem["path"];
  readonly message: string;
}

/** A declared resource, with its last valid spec when the newest one is broken. */
export interface Desired<K extends Kind> {
  readonly kind: K;
  readonly name: string;
  /** Undefined when it has never been valid. */
  readonly spec: SpecByKind[K] | undefined;
  /** SHA-256 of the canonical spec; of the text without one. Changes exactly when the spec does. */
  readonly specHash: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly origin: Origin;
  /**
   * The number of changes of the spec, as the source counts; undefined: the source does not count, and the operator
   * does (DECISIONS 15).
   */
  readonly generation: number | undefined;
  /** Of its object in the cluster, which another object of the same name has not; absent: it is none. */
  readonly uid?: string;
  /** When the spec now in force was first read: the incumbent is the older one. */
  readonly since: Date;
  readonly diagnostics: readonly Diagnostic[];
}

/** A problem of the source as a whole, e.g. `SourceEmpty`. Its message names the file, if there is one. */
export interface SourceProblem {
  readonly reason: string;
  readonly message: string;
  readonly file?: string;
}

/**
 * The desired state. Notifications carry only a key, and the subscriber reads again. The Kubernetes counterpart
 * implements the same; `test/store/source-conformance.ts` is the definition.
 */
export interface DesiredSource extends AsyncDisposable {
  get<K extends Kind>(kind: K, name: string): Desired<K> | undefined;
  list<K extends Kind>(kind: K): readonly Desired<K>[];
  /** Problems that belong to no resource. */
  problems(): readonly SourceProblem[];
  /** Calls `onKey` for every resource whose spec, labels or diagnostics changed, appeared or were removed. */
  watch(onKey: (kind: Kind, name: string) => void): Disposable;
  /** Reads everything again now, by `stat` where nothing changed. */
  resync(): Promise<void>;
}

/** The published state. Written by one operator, read by all. */
export interface PublishedStore extends AsyncDisposable {
  slots(): readonly PublishedSlot[];
  slot(name: string): PublishedSlot | undefined;
  registry(): PublishedRegistry;
  /** Reads the registry as the operator has published it by now. Never rejects: where that fails the last one stays. */
  refreshRegistry(): Promise<void>;
  operator(): PublishedOperator | undefined;
  /** The liveness of the publishing operator, by this reader's clock; `absent`: none has published yet. */
  operatorLiveness(): OperatorLiveness;
  /** Calls `onChange` with all changes of one scan. */
  watch(onChange: (change: PublishedChange) => void): Disposable;
}

export type OperatorLiveness = Liveness | "absent";

export interface PublishedChange {
  /** Slots whose published state appeared, changed or was removed. */
  readonly slots: readonly string[];
  readonly registry: boolean;
  /** The operator's record has changed, possibly only its heartbeat. */
  readonly operator: boolean;
}

/** The operator's side of the published state. */
export interface Publisher {
  /** Where it writes, for messages: a directory, or `the cluster`. */
  readonly place: string;
  readSlots(): Promise<readonly PublishedSlot[]>;
  writeSlot(slot: PublishedSlot): Promise<void>;
  /** Of a slot that has ended: in a cluster its object may go then. */
  deleteSlot(name: string): Promise<void>;
  /** The slots among `names` whose published state somebody has deleted. */
  missingSlots(names: Iterable<string>): readonly string[];
  /** Whether the written registry is still there. */
  hasRegistry(): boolean;
  writeRegistry(registry: PublishedRegistry): Promise<void>;
  /** A heartbeat. The store adds the publisher's identity and the time. */
  writeOperator(operator: OperatorReport): Promise<void>;
}

export type OperatorReport = Omit<PublishedOperator, "heartbeat" | "incarnation" | "beat">;
export type DemandReport = Pick<Demand, "slots">;

export interface DemandStore extends AsyncDisposable {
  /** Every live gateway's demand, without void ones. */
  list(): readonly Demand[];
  watch(onSlots: (slots: readonly string[]) => void): Disposable;
}

/** One gateway's side of its demand. Disposing withdraws it: no slot waits for this gateway any more. */
export interface DemandWriter extends AsyncDisposable {
  /** Also a heartbeat. */
  write(demand: DemandReport): Promise<void>;
}

/** The demand of the other gateways, for people. */
export interface OtherDemand {
  /** Of every other live gateway, as it was published last; read when it is asked for, at most twice a second. */
  list(): readonly Demand[];
}

export interface RequestStore extends AsyncDisposable {
  list(slot: string): readonly SlotRequest[];
  put(request: SlotRequest): Promise<void>;
  /** With `token`: that request, and not a request that has replaced it. */
  remove(slot: string, kind: RequestKind, token?: string): Promise<void>;
  watch(onSlot: (slot: string) => void): Disposable;
}

/** Another operator may act by now: this one must not. */
export class LeadershipLost extends Error {
  constructor() {
    super("another operator has taken over, or the state was deleted");
    this.name = "LeadershipLost";
  }
}

/** The right to act. Disposing passes it to a waiting operator. */
export interface Lease extends AsyncDisposable {
  /**
   * Throws `LeadershipLost` where another may act by now. Called before every action: a process that was stopped or
   * hung for longer than its lease must not act when it continues.
   */
  check(): void;
}

export interface LeadOptions {
  /** A foreign file was moved aside. */
  readonly onWarning: (line: string) => void;
  /** Called once when this process leads no more. */
  readonly onLost: () => void;
  /** Waits while another operator leads. Absent: in that case `lead` rejects with `LockHeld`. */
  readonly standby?: {
    /** Called once, with the pid of the present leader, before the wait. */
    readonly onWaiting: (leader: number) => void;
    /** Ends the wait: `lead` rejects with its reason. */
    readonly signal: AbortSignal;
  };
}
