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
import type { UpstreamSpec } from "../api/upstream.ts";

export interface SpecByKind {
  Slot: SlotSpec;
  Model: ModelSpec;
  Upstream: UpstreamSpec;
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

/** A resource as a person declared it, with the last good spec when the newest one is broken. */
export interface Desired<K extends Kind> {
  readonly kind: K;
  readonly name: string;
  /** Undefined when it has never been valid. */
  readonly spec: SpecByKind[K] | undefined;
  /** SHA-256 of the canonical spec; of the text when there is none. Changes exactly when the spec does. */
  readonly specHash: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly file: string;
  /** When the spec now in force was first seen: the incumbent is the older one. */
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
 * What people want. Changes carry only a key; whoever hears of one reads again. The Kubernetes counterpart
 * implements the same; `test/store/source-conformance.ts` is the definition.
 */
export interface DesiredSource extends AsyncDisposable {
  get<K extends Kind>(kind: K, name: string): Desired<K> | undefined;
  list<K extends Kind>(kind: K): readonly Desired<K>[];
  /** Problems that belong to no resource. */
  problems(): readonly SourceProblem[];
  /** Calls `onKey` for every resource whose spec, labels or diagnostics changed, appeared or went. */
  watch(onKey: (kind: Kind, name: string) => void): Disposable;
  /** Reads everything again now, by `stat` where nothing changed. */
  resync(): Promise<void>;
}

/** What the operator says. Written by one operator, read by everybody. */
export interface PublishedStore extends AsyncDisposable {
  slots(): readonly PublishedSlot[];
  slot(name: string): PublishedSlot | undefined;
  registry(): PublishedRegistry;
  operator(): PublishedOperator | undefined;
  /** Calls `onChange` with everything that one look has found changed. */
  watch(onChange: (change: PublishedChange) => void): Disposable;
}

export interface PublishedChange {
  /** Slots whose published state appeared, changed or went. */
  readonly slots: readonly string[];
  readonly registry: boolean;
  /** The operator's record, if only its heartbeat. */
  readonly operator: boolean;
}

/** The operator's side of the published state. */
export interface Publisher {
  readSlots(): Promise<readonly PublishedSlot[]>;
  writeSlot(slot: PublishedSlot): Promise<void>;
  deleteSlot(name: string): Promise<void>;
  /** Those of the names that nobody could read now: somebody has deleted what was written. */
  missingSlots(names: Iterable<string>): readonly string[];
  /** Whether the registry that was written is still there. */
  hasRegistry(): boolean;
  writeRegistry(registry: PublishedRegistry): Promise<void>;
  writeOperator(operator: PublishedOperator): Promise<void>;
}

export interface DemandStore extends AsyncDisposable {
  /** Every live gateway's demand; void ones are left out. */
  list(): readonly Demand[];
  watch(onSlots: (slots: readonly string[]) => void): Disposable;
}

export interface RequestStore extends AsyncDisposable {
  list(slot: string): readonly SlotRequest[];
  put(request: SlotRequest): Promise<void>;
  /** With `token`: that request, and none that has taken its place since. */
  remove(slot: string, kind: RequestKind, token?: string): Promise<void>;
  watch(onSlot: (slot: string) => void): Disposable;
}
