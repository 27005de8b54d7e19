import type { ModelRecord } from "../api/model.ts";
import type { EngineKind, ProcessRole } from "../api/names.ts";
import { didYouMean, nearest } from "../api/nearest.ts";
import type { EnvValue, Workload } from "../api/workload.ts";
import { expand } from "./expand.ts";
import type { EngineInput, EngineRefusal, ProbeInput, SlotInputs } from "./engine.ts";
import { containerOf, type ContainerNeeds } from "./container.ts";
import { gpuHidingEnv } from "./gpu-use.ts";
import { workloadHash } from "./hash.ts";
import type { Launch } from "./launch.ts";

/** Where an engine must listen: in a container the published port leads to every address of its own network. */
export interface Listen {
  readonly host: string;
  readonly port: number;
}

/** Where the engine listens, as its runtime says. `port`: on which it is reached. */
export function listenOf({ placement }: SlotInputs, port: number, needs: Pick<ContainerNeeds, "port">): Listen {
  const { listenHost, hasOwnNetwork } = placement.addressing;
  return { host: listenHost, port: hasOwnNetwork ? needs.port : port };
}

/** The port on which that process is reached; undefined where one must be leased and none is. */
export function reachedOn(
  { placement, ports }: EngineInput,
  role: ProcessRole,
  needs: Pick<ContainerNeeds, "port">,
): number | undefined {
  return placement.addressing.needsHostPort ? ports[role] : needs.port;
}

/** The value of a variable that stands for a new bearer per start, for custom engines that take a key. */
const ownBearer = "$(BEARER)";

/** The one way to make a workload: environment, expansion, the manifest's overrides, and the hash. */
export function workloadOf(input: EngineInput, launch: Launch): Workload | EngineRefusal {
  const { spec, slot, placement } = input;
  const given = variables(slot, {
    ...launch,
    ...listenOf(input, launch.port, launch.container),
    ordinal: input.ordinal ?? 0,
  });
  const env: Record<string, EnvValue> = { ...gpuHidingEnv(input), ...launch.env, ...given };
  let { bearer } = launch;
  for (const [name, value] of Object.entries(spec.env)) {
    if (value === ownBearer) bearer = name;
    else if (typeof value === "string") env[name] = expand(value, given);
    else if ("file" in value.valueFrom) env[name] = { file: value.valueFrom.file };
    else if (placement.inCluster === true) env[name] = { secretKeyRef: value.valueFrom.secretKeyRef };
    else {
      return {
        reason: "NoSecret",
        message: `env.${name} comes from a Kubernetes Secret, which only a Pod can read: use valueFrom.file`,
      };
    }
  }
  const words = plain(env);
  // Only a person's own text is expanded: a model's path may hold any characters.
  const args = spec.args.map((word) => expand(word, words));
  const own = spec.command?.map((word) => expand(word, words));
  const command =
    own === undefined
      ? (launch.join ?? ((all: readonly string[]) => all))([...launch.command, ...args])
      : [...own, ...args];
  const container = placement.runs === "program" ? undefined : containerOf(input, launch.model, launch.container);
  if (container !== undefined && "reason" in container) return container;
  return {
    slot,
    role: launch.role,
    ordinal: input.ordinal ?? 0,
    hash: workloadHash(input, launch, container),
    runtime: placement.runtime,
    command,
    env,
    ...(bearer === undefined ? {} : { bearer: { env: bearer } }),
    workingDir: spec.workingDir,
    port: launch.port,
    stopSeconds: spec.stopSeconds,
    ...(launch.contextPlace === undefined ? {} : { contextPlace: launch.contextPlace }),
    ...(container === undefined ? {} : { container }),
  };
}

/** The manifest's probe path with its `$(NAME)` expanded, or the engine's own. */
export function probePath(input: ProbeInput, launch: Pick<Launch, "ref" | "model">, otherwise: string): string {
  const { path } = input.spec.probe;
  if (path === undefined) return otherwise;
  const values = variables(input.slot, { ...launch, ...input.endpoint });
  const env = Object.entries(input.spec.env).map(([name, value]) => [
    name,
    typeof value === "string" ? expand(value, values) : undefined,
  ]);
  return expand(path, { ...values, ...Object.fromEntries(env.filter(([, value]) => value !== undefined)) });
}

type Variables = Pick<Launch, "ref" | "model"> & Partial<Listen> & { readonly ordinal?: number };

function variables(slot: string, { ref, model, host, port, ordinal }: Variables): Record<string, string> {
  return {
    ...(host === undefined ? {} : { HOST: host }),
    ...(port === undefined ? {} : { PORT: String(port) }),
    SLOT: slot,
    ...(ordinal === undefined ? {} : { ORDINAL: String(ordinal) }),
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
      message: `no model is called ${ref}: put ${ref}.gguf into the models directory, declare it in models/, or fetch it by \`berth model pull ${ref}\`${hint}`,
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
