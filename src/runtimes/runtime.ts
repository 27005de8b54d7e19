import type { IdentityField } from "../api/engine-identity.ts";
import type { RuntimeKind } from "../api/names.ts";
import type { ProcessRef } from "../api/process-ref.ts";
import type { HostPorts } from "./host-ports.ts";
import type { Addressing, Observed, ProcessStatus, Workload } from "../api/workload.ts";

export interface RemoveOptions {
  /** Between TERM and KILL of the whole group or container. */
  readonly stopSeconds: number;
  /** Aborting goes to KILL at once. A Pod that was told its time before may have all of it. */
  readonly signal?: AbortSignal;
}

export interface StartOptions {
  /** The uid of the slot's object in the cluster, which owns what is started there; absent: the slot is a file. */
  readonly ownerUid?: string;
}

/** The user of an engine, and its group. */
export interface EngineOwner {
  readonly uid: number;
  readonly gid: number;
}

export interface FetchProgress {
  readonly bytesDone: number;
  readonly bytesTotal?: number;
  readonly bytesPerSecond?: number;
}

/** Whether everything that a workload needs is on this machine. */
export type Preparation =
  /**
   * `digest`: the resolved digest of an image that was named without one. `program`: the identity of an image's content,
   * whatever its name.
   */
  | { readonly state: "ready"; readonly digest?: string; readonly program?: string }
  /** Something must be fetched for that slot and attempt, and nobody has started. */
  | { readonly state: "absent"; readonly message: string }
  | { readonly state: "fetching"; readonly message: string; readonly progress: FetchProgress }
  | {
      readonly state: "failed";
      readonly reason: string;
      readonly message: string;
      /** Not terminal: it is retried automatically. */
      readonly isTerminal: boolean;
      /** The time of the retry, where it is known. */
      readonly retryAt?: Date;
    };

/** The facts about a kind of runtime that need no call to it: the only ones that the operator decides by. */
export interface RuntimeTraits {
  readonly kind: RuntimeKind;
  /** The runtime starts a program of this machine, or an image. */
  readonly runs: "program" | "image";
  /**
   * The service that must answer before anything can be done there, for people: "container engine". Absent: it always
   * answers.
   */
  readonly service?: string;
  /** The field that identifies an engine of this runtime, as observed and as published. */
  readonly identity: IdentityField;
  readonly addressing: Addressing;
  /** Its engines run on other machines, of which neither devices nor memory are known here. */
  readonly isElsewhere?: true;
  /** Fetches what an engine needs after the engine was asked for: until then no program runs. */
  readonly pullsAfterStart?: true;
  /** It makes Pods: adapters write what a Pod alone can have. */
  readonly inCluster?: true;
  /** All its Pods run on this machine after all. */
  readonly isOnThisMachine?: true;
  /** Why this installation starts no engine there; absent: it does. */
  readonly refusal?: string;
  /** Whether that process of this machine belongs to the engine. May throw where the process is gone. */
  owns(engine: Pick<ProcessStatus, IdentityField>, pid: number): boolean;
}

/**
 * Turns workloads into running processes or containers. Everything is idempotent; nothing without our label is ever
 * touched; not found is success. `test/runtimes/conformance.ts` is the definition, and every runtime passes it.
 */
export interface Runtime extends AsyncDisposable {
  readonly traits: RuntimeTraits;
  /** The ports of this machine. Absent: its engines are no processes of this machine. */
  readonly hostPorts?: HostPorts;
  /** The user of its engines; undefined: the user of this process. Absent: not known. */
  engineOwner?(): Promise<EngineOwner | undefined>;
  /** False while reads would throw RuntimeUnavailable; absent: never. */
  isAnswering?(): boolean;
  /** The operator is stopping: an unreachable runtime is waited for no longer than `ms`; absent: it always answers. */
  limitUnreachableWait?(ms: number): void;
  /** Calls `onChange` whenever `isAnswering` changes; absent: never. */
  watchAnswering?(onChange: () => void): Disposable;
  /**
   * The running processes with our label for that slot, and exited ones that were not removed. Throws
   * RuntimeUnavailable when they cannot be known now. `concerned` is for a set of runtimes: those whose failure
   * matters to the slot.
   */
  observe(slot: string, concerned?: readonly RuntimeKind[]): Promise<readonly Observed[]>;
  /** Slots with anything under our label, so that orphans are found. */
  list(): Promise<readonly string[]>;
  /**
   * Whether everything that the workload needs is present, and the progress of a fetch; starts nothing. `attempt` is
   * the reason for the fetch: for another attempt, a terminal failure counts as absent again. Absent: this runtime
   * never fetches.
   */
  preparation?(workload: Workload, attempt: string): Promise<Preparation>;
  /**
   * Starts to fetch what is absent, or joins a running fetch. Watchers are notified of progress and end. Resolves once
   * `preparation` reports it.
   */
  fetch?(workload: Workload, attempt: string): Promise<void>;
  /** Ends what is being fetched for this slot alone, but for these images. Resolves once it has ended. */
  keepFetches?(slot: string, images: readonly string[]): Promise<void>;
  /**
   * Runs the workload unless the same hash runs already in that role and ordinal. Resolves once it is started, not once
   * it is healthy. Throws when a different hash still runs: the caller removes first; and NoContextPlace where the
   * workload can run without its place for contexts only.
   */
  ensure(workload: Workload, options?: StartOptions): Promise<void>;
  /** Ends that process, or every process of the slot, and forgets it. Resolves once it is verified gone. */
  remove(slot: string, process: ProcessRef | undefined, options: RemoveOptions): Promise<void>;
  /** The first output of a running engine, up to 1 MiB. Absent: it is in the directory of logs (`logs/first-output.ts`). */
  firstOutput?(process: Observed): Promise<string>;
  /** Calls `onSlot` soon after a process of that slot started, ended or changed. Events are hints and may repeat. */
  watch(onSlot: (slot: string) => void): Promise<Disposable>;
}

/** Every runtime of an installation, as the operator uses them. */
export interface Runtimes extends Omit<Runtime, "traits" | "firstOutput" | "hostPorts" | "engineOwner"> {
  readonly kinds: readonly RuntimeKind[];
  /** The kinds that `runtime: auto` may choose beside the runtime that is always there, in the order of preference. */
  readonly offered: readonly RuntimeKind[];
  /** The runtime that needs no further service. */
  readonly alwaysThere: RuntimeKind;
  /** Undefined: this installation has no such runtime. */
  traitsOf(kind: RuntimeKind): RuntimeTraits | undefined;
  /** Whether that process of this machine belongs to the engine; false where that is unknown. */
  owns(engine: ProcessStatus, pid: number): boolean;
  /** Whether it answers now; false until it was first needed. */
  answers(kind: RuntimeKind): boolean;
  /** Calls `onChange` whenever `answers` changes. */
  watchAnswering(onChange: () => void): Disposable;
}
