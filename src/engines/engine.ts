import type { Compute } from "../api/compute.ts";
import type { ModelRecord } from "../api/model.ts";
import type { EngineImages, EngineLock } from "../api/engine-images.ts";
import type { Backend, EngineKind, EngineProtocol, ProcessRole, RuntimeKind, SlotCapability } from "../api/names.ts";
import { wrongWork } from "../api/slot-work.ts";
import type { SlotSpec } from "../api/slot.ts";
import type { Addressing, Observed, Workload } from "../api/workload.ts";

/** The parts of this installation that an adapter uses: decided by composition, constant while the operator runs. */
export interface EngineHost {
  /** Absolute path of a `llama-server`, when there is one. */
  readonly llamaServer: string | undefined;
  /** The facts that this `llama-server` printed; undefined: it was not run for them. */
  readonly server?: ServerFacts;
  /** Where engines may save the context of their prompts, a directory for each process; absent: nowhere. */
  readonly contextDir?: string;
  /** Program and leading arguments of the embedded engine, when it is installed. */
  readonly embedded: readonly string[] | undefined;
}

/** The facts that a `llama-server` prints about itself, without a model. */
export interface ServerFacts {
  /** Every flag in its `--help`; undefined: its output is no help of llama.cpp. */
  readonly flags: ReadonlySet<string> | undefined;
  /** Level 4 of its log is about the model and the machine; in earlier versions it held prompts. */
  readonly hasTraceLevel: boolean;
  /** The devices beside the processor, by `--list-devices`; undefined: no such output. */
  readonly devices: readonly ServerDevice[] | undefined;
}

export interface ServerDevice {
  /** `CUDA0`. */
  readonly id: string;
  readonly name: string;
  readonly totalBytes: number;
}

/** A value that no manifest sets, and its reason. */
export interface Derived {
  readonly value: string;
  readonly reason: string;
}

/** Where a slot runs: decided before its adapter is called, kept while the slot is loaded (DECISIONS 2). */
export interface Placement {
  readonly runtime: RuntimeKind;
  /** The runtime starts a program of this machine, or an image. */
  readonly runs: "program" | "image";
  /** How that runtime's engines are reached. */
  readonly addressing: Addressing;
  /** The runtime makes Pods: Pod templates, extended resources and keys of Secrets mean something there. */
  readonly inCluster?: true;
  /** All its Pods run on the machine of this operator; absent: on machines that it does not know. */
  readonly isOnThisMachine?: true;
  /** The engine runs on another machine, of which neither devices nor memory are known here. */
  readonly isElsewhere?: true;
  readonly backend: Exclude<Backend, "auto">;
  /** The shipped or configured images, by engine and backend. */
  readonly images: EngineImages;
  /** Digests of images that are named without one, also of those in manifests. */
  readonly lock: EngineLock;
  /** Memory of the machine that an engine may use, and of its largest GPU; undefined: not known. */
  readonly memory?: { readonly hostBytes: number | undefined; readonly gpuBytes: number | undefined };
}

/** Everything that an adapter may read. Frozen; two equal inputs give two equal workloads. */
export interface EngineInput {
  readonly slot: string;
  readonly spec: SlotSpec;
  /** The ref that the slot holds now: `model.default`, or the ref of a swap. */
  readonly ref: string | undefined;
  readonly model: ModelRecord | undefined;
  /** The record of `model.rerank`, when the slot names one. */
  readonly rerankModel: ModelRecord | undefined;
  /** Kept while the slot is loaded (DECISIONS 2). */
  readonly threads: number;
  /** Which replica; absent: 0. Of two replicas nothing differs but this number and the ports. */
  readonly ordinal?: number;
  /** Ports of the host that are leased, by role. */
  readonly ports: Readonly<Partial<Record<ProcessRole, number>>>;
  readonly host: EngineHost;
  readonly placement: Placement;
  /** Refs of the registry, only for a hint at the probable one. */
  readonly knownRefs?: readonly string[];
}

/** The facts about a slot before it has ports. */
export type SlotInputs = Omit<EngineInput, "ordinal" | "ports" | "threads">;

/** `endpoint`: where the process that is probed is reached. */
export interface ProbeInput extends SlotInputs {
  readonly endpoint?: Pick<Observed, "host" | "port">;
}

/** A cause that only a person can mend: the slot becomes Stalled with this reason. */
export interface EngineRefusal {
  readonly reason: string;
  readonly message: string;
}

export const everyPortTaken: EngineRefusal = { reason: "NoFreePort", message: "every engine port is taken" };

export interface ProbeTarget {
  /** GET path that answers 200 once the model is loaded and 503 while it loads. */
  readonly path: string;
  /** One small request that proves that the model answers, sent once at the end of warm-up; undefined: none. */
  readonly warmUp: WarmUp | undefined;
  /** The protocols to probe once the engine is warm, because its versions differ in them. */
  readonly protocols?: readonly EngineProtocol[];
}

/** A POST of JSON, or of a form with one file. */
export type WarmUp =
  | { readonly path: string; readonly body: unknown }
  | {
      readonly path: string;
      readonly fields: Readonly<Record<string, string>>;
      readonly file: { readonly field: string; readonly name: string; readonly type: string; readonly base64: string };
    };

/** Turns a slot into workloads. Pure: no file, clock or socket. */
export interface Engine {
  readonly kind: EngineKind;
  /** The slot's capabilities, by spec, name and model. Published before anything runs. */
  capabilities(input: SlotInputs): readonly SlotCapability[];
  /** The routes that the engine answers itself, among those that not every engine has. */
  protocols(input: SlotInputs): readonly EngineProtocol[];
  /** The processes the slot needs, in start order. */
  roles(input: SlotInputs): readonly ProcessRole[];
  /** One workload per role, or the reason why there can be none. Every role in `roles` has a port in the input. */
  workloads(input: EngineInput): readonly Workload[] | EngineRefusal;
  /** `$(HOST)` and `$(PORT)` in the path stay as written where the input has no endpoint. */
  probe(input: ProbeInput, role: ProcessRole): ProbeTarget;
  /** The values that the adapter derives for a start, by name, for status; absent: only those of every engine. */
  derived?(input: SlotInputs): Readonly<Record<string, Derived>>;
  /** Reads devices from the engine's log since its start; undefined: none are named. Absent: this engine never logs them. */
  computeIn?(input: SlotInputs, said: string): Compute | undefined;
  /** The model name that the engine expects in requests. */
  servedModel(input: SlotInputs): string;
}

/** Distinguishes a refusal from workloads. */
export function isRefusal(result: readonly Workload[] | EngineRefusal): result is EngineRefusal {
  return !Array.isArray(result);
}

/** The engine's workloads, where the model fits the slot's kind of work. */
export function workloadsOf(engine: Engine, input: EngineInput): readonly Workload[] | EngineRefusal {
  const message = wrongWork(input.slot, input.spec, input.model);
  return message === undefined ? engine.workloads(input) : { reason: "NoCapability", message };
}

/**
 * The slot's capabilities. With a refused model the slot keeps its own kind of work: requests for that get the failure.
 */
export function capabilitiesOf(engine: Engine, input: SlotInputs): readonly SlotCapability[] {
  const isWrong = wrongWork(input.slot, input.spec, input.model) !== undefined;
  return engine.capabilities(isWrong ? { ...input, model: undefined } : input);
}
