import type { ModelRecord } from "../api/model.ts";
import type { EngineKind, ProcessRole } from "../api/names.ts";
import { didYouMean, nearest } from "../api/nearest.ts";
import type { EnvValue, Workload } from "../api/workload.ts";
import { expand } from "./expand.ts";
import type { EngineInput, EngineRefusal, SlotInputs } from "./engine.ts";
import { containerOf, type ContainerNeeds } from "./container.ts";
import { gpuHidingEnv } from "./gpu-use.ts";
import { workloadHash } from "./hash.ts";

/** Engines are reached here and nowhere else (service specification, "Limits"). */
const host = "127.0.0.1";

/** Where an engine must listen: in a container the published port leads to every address of its own network. */
export interface Listen {
  readonly host: string;
  readonly port: number;
}

/** Where the engine listens: a process where it is reached, a container on all its own addresses and its own port. */
export function listenOf({ placement }: SlotInputs, port: number, needs: Pick<ContainerNeeds, "port">): Listen {
  return placement.runtime === "process" ? { host, port } : { host: "0.0.0.0", port: needs.port };
}

export interface Launch {
  readonly role: ProcessRole;
  /** The engine's own program and arguments; a manifest's `command` replaces it. */
  readonly command: readonly string[];
  /** What of the launch line must restart the engine when it changes; not the port or derived values. */
  readonly identity: unknown;
  readonly ref: string;
  readonly model: ModelRecord | undefined;
  /** What the engine itself wants in its environment; the manifest's `env` wins. */
  readonly env?: Readonly<Record<string, string>>;
  /** The variable by which the engine takes a bearer, where it does. */
  readonly bearer?: string;
  readonly port: number;
  readonly container: ContainerNeeds;
  /** How an image takes its words; not for a manifest's own command. */
  readonly join?: (words: readonly string[]) => readonly string[];
}

/** As the value of a variable: what Berth makes for each start, for an engine of one's own that takes such a key. */
const ownBearer = "$(BEARER)";

/** The one way to make a workload: environment, expansion, a manifest's overrides, and the hash. */
export function workloadOf(input: EngineInput, launch: Launch): Workload | EngineRefusal {
  const { spec, slot, placement } = input;
  const given = variables(slot, { ...launch, ...listenOf(input, launch.port, launch.container) });
  const env: Record<string, EnvValue> = { ...gpuHidingEnv(input), ...launch.env, ...given };
  let { bearer } = launch;
  for (const [name, value] of Object.entries(spec.env)) {
    if (value === ownBearer) bearer = name;
    else if (typeof value === "string") env[name] = expand(value, given);
    else if ("file" in value.valueFrom) env[name] = { file: value.valueFrom.file };
    else {
      return {
        reason: "NoSecret",
        message: `env.${name} comes from a Kubernetes Secret, which a process cannot read: use valueFrom.file`,
      };
    }
  }
  const words = plain(env);
  // Only what a person wrote is expanded: a model's path may hold any characters.
  const args = spec.args.map((word) => expand(word, words));
  const own = spec.command?.map((word) => expand(word, words));
  const command =
    own === undefined
      ? (launch.join ?? ((all: readonly string[]) => all))([...launch.command, ...args])
      : [...own, ...args];
  const container = placement.runtime === "process" ? undefined : containerOf(input, launch.model, launch.container);
  if (container !== undefined && "reason" in container) return container;
  return {
    slot,
    role: launch.role,
    hash: workloadHash(input, launch, container?.image),
    runtime: placement.runtime,
    command,
    env,
    ...(bearer === undefined ? {} : { bearer: { env: bearer } }),
    workingDir: spec.workingDir,
    host,
    port: launch.port,
    stopSeconds: spec.stopSeconds,
    ...(container === undefined ? {} : { container }),
  };
}

/** The manifest's probe path with its `$(NAME)` expanded, or the engine's own. */
export function probePath(
  input: SlotInputs & Partial<Pick<EngineInput, "ports">>,
  launch: Pick<Launch, "role" | "ref" | "model">,
  otherwise: string,
): string {
  const { path } = input.spec.probe;
  if (path === undefined) return otherwise;
  const values = variables(input.slot, { ...launch, host, port: input.ports?.[launch.role] });
  const env = Object.entries(input.spec.env).map(([name, value]) => [
    name,
    typeof value === "string" ? expand(value, values) : undefined,
  ]);
  return expand(path, { ...values, ...Object.fromEntries(env.filter(([, value]) => value !== undefined)) });
}

type Variables = Pick<Launch, "ref" | "model"> & { readonly host: string; readonly port: number | undefined };

function variables(slot: string, { ref, model, host: listenHost, port }: Variables): Record<string, string> {
  return {
    HOST: listenHost,
    ...(port === undefined ? {} : { PORT: String(port) }),
    SLOT: slot,
    MODEL: ref,
    MODEL_PATH: model?.path ?? "",
  };
}

function plain(env: Readonly<Record<string, EnvValue>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (typeof value === "string" ? [[name, value]] : [])),
  );
}

/** Why a model cannot be loaded now by that engine, or undefined when it can. */
export function modelRefusal(
  engine: EngineKind,
  ref: string,
  model: ModelRecord | undefined,
  known: readonly string[] = [],
): EngineRefusal | undefined {
  if (model === undefined) {
    const hint = didYouMean(nearest(ref, known));
    return {
      reason: "ModelNotFound",
      message: `no model is called ${ref}: put ${ref}.gguf into the models directory or declare it in models/${hint}`,
    };
  }
  if (model.state !== "available") {
    return { reason: model.reason ?? "ModelUnavailable", message: model.message ?? `model ${ref} is ${model.state}` };
  }
  if (model.engines !== undefined && !model.engines.includes(engine)) {
    const allowed = model.engines.join(", ") || "no engine";
    return { reason: "WrongEngine", message: `model ${ref} is for ${allowed}, not for ${engine}` };
  }
  return undefined;
}
