import type { Compute } from "../api/compute.ts";
import type { ModelRecord } from "../api/model.ts";
import type { EngineImages, EngineLock } from "../api/engine-images.ts";
import type { Backend, EngineKind, EngineProtocol, ProcessRole, RuntimeKind, SlotCapability } from "../api/names.ts";
import { wrongWork } from "../api/slot-work.ts";
import type { SlotSpec } from "../api/slot.ts";
import type { Workload } from "../api/workload.ts";

/** What this installation offers an adapter: decided by composition, constant while the operator runs. */
export interface EngineHost {
  /** Absolute path of a `llama-server`, when there is one. */
  readonly llamaServer: string | undefined;
  /** What that `llama-server` said of itself; undefined: it was not asked. */
  readonly server?: ServerFacts;
  /** Program and leading arguments of the embedded engine, when it is installed. */
  readonly embedded: readonly string[] | undefined;
}

/** What a `llama-server` prints of itself, without a model. */
export interface ServerFacts {
  /** Every flag that its `--help` names; undefined: it printed no help that llama.cpp prints. */
  readonly flags: ReadonlySet<string> | undefined;
  /** Level 4 of its log is about the model and the machine; in earlier versions it held prompts. */
  readonly hasTraceLevel: boolean;
  /** What it can compute on beside the processor, by `--list-devices`; undefined: it did not say. */
  readonly devices: readonly ServerDevice[] | undefined;
}

export interface ServerDevice {
  /** `CUDA0`. */
  readonly id: string;
  readonly name: string;
  readonly totalBytes: number;
}

/** A value that nobody wrote into the manifest, and where it comes from. */
export interface Derived {
  readonly value: string;
  readonly reason: string;
}

/** Where a slot runs: decided before its adapter is asked, kept while it is loaded (DECISIONS 2). */
export interface Placement {
  readonly runtime: RuntimeKind;
  readonly backend: Exclude<Backend, "auto">;
  /** What is shipped or configured, by engine and backend. */
  readonly images: EngineImages;
  /** Digests of images that were named without one, also of those in manifests. */
  readonly lock: EngineLock;
  /** Memory of the machine that an engine may use, and of its largest GPU; undefined: not known. */
  readonly memory?: { readonly hostBytes: number | undefined; readonly gpuBytes: number | undefined };
}

/** Everything an adapter may look at. Frozen; two equal inputs give two equal workloads. */
export interface EngineInput {
  readonly slot: string;
  readonly spec: SlotSpec;
  /** The ref the slot holds now: `model.default`, or what a swap asked for. */
  readonly ref: string | undefined;
  readonly model: ModelRecord | undefined;
  /** The record of `model.rerank`, when the slot names one. */
  readonly rerankModel: ModelRecord | undefined;
  /** Kept while the slot is loaded (DECISIONS 2). */
  readonly threads: number;
  readonly ports: Readonly<Partial<Record<ProcessRole, number>>>;
  readonly host: EngineHost;
  readonly placement: Placement;
  /** Refs of the registry, only to name the one that was probably meant. */
  readonly knownRefs?: readonly string[];
}

/** What is known of a slot before it has ports. */
export type SlotInputs = Omit<EngineInput, "ports" | "threads">;

/** A cause that only a person can mend: the slot becomes Stalled with this reason. */
export interface EngineRefusal {
  readonly reason: string;
  readonly message: string;
}

export const everyPortTaken: EngineRefusal = { reason: "NoFreePort", message: "every engine port is taken" };

export interface ProbeTarget {
  /** GET path that answers 200 once the model is loaded and 503 while it loads. */
  readonly path: string;
  /** One small request that proves the model answers, sent once at the end of warm-up; undefined: none. */
  readonly warmUp: WarmUp | undefined;
  /** What is to be asked for once it is warm, because versions of the engine differ in it. */
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
  /** What the slot answers, by spec, name and model. Published before anything runs. */
  capabilities(input: SlotInputs): readonly SlotCapability[];
  /** Which routes the engine answers itself, of those that not every engine has. */
  protocols(input: SlotInputs): readonly EngineProtocol[];
  /** The processes the slot needs, in start order. */
  roles(input: SlotInputs): readonly ProcessRole[];
  /** One workload per role, or why there can be none. Every role in `roles` has a port in the input. */
  workloads(input: EngineInput): readonly Workload[] | EngineRefusal;
  /** `$(PORT)` in the path stays as written where the input has no port. */
  probe(input: SlotInputs & Partial<Pick<EngineInput, "ports">>, role: ProcessRole): ProbeTarget;
  /** What it derives for a start, by name, for status; absent: nothing but what every engine has. */
  derived?(input: SlotInputs): Readonly<Record<string, Derived>>;
  /** What its own words since the start say of what it computes on; undefined: nothing. Absent: it never says. */
  computeIn?(input: SlotInputs, said: string): Compute | undefined;
  /** The model name that the engine expects in requests. */
  servedModel(input: SlotInputs): string;
}

/** Tells why there are no workloads from workloads. */
export function isRefusal(result: readonly Workload[] | EngineRefusal): result is EngineRefusal {
  return !Array.isArray(result);
}

/** As the engine makes them, where the model is fit for the slot's kind of work. */
export function workloadsOf(engine: Engine, input: EngineInput): readonly Workload[] | EngineRefusal {
  const message = wrongWork(input.slot, input.spec, input.model);
  return message === undefined ? engine.workloads(input) : { reason: "NoCapability", message };
}

/** What the slot answers. With a model that is refused still its own kind of work: requests for that hear of the failure. */
export function capabilitiesOf(engine: Engine, input: SlotInputs): readonly SlotCapability[] {
  const isWrong = wrongWork(input.slot, input.spec, input.model) !== undefined;
  return engine.capabilities(isWrong ? { ...input, model: undefined } : input);
}
