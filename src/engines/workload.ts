import type { ModelRecord } from "../api/model.ts";
import type { ProcessRole } from "../api/names.ts";
import { nearest } from "../api/config.ts";
import type { EnvValue, Workload } from "../api/workload.ts";
import { expand } from "./expand.ts";
import type { EngineInput, EngineRefusal } from "./engine.ts";
import { workloadHash } from "./hash.ts";

/** Engines listen here and nowhere else (service specification, "Limits"). */
const host = "127.0.0.1";

export interface Launch {
  readonly role: ProcessRole;
  /** The engine's own program and arguments; a manifest's `command` replaces it. */
  readonly command: readonly string[];
  /** What of the launch line must restart the engine when it changes; not the port or derived values. */
  readonly identity: unknown;
  readonly ref: string;
  readonly model: ModelRecord | undefined;
  readonly port: number;
}

/** The one way to make a workload: environment, expansion, a manifest's overrides, and the hash. */
export function workloadOf(input: EngineInput, launch: Launch): Workload {
  const { spec, slot } = input;
  const given: Record<string, string> = {
    HOST: host,
    PORT: String(launch.port),
    SLOT: slot,
    MODEL: launch.ref,
    MODEL_PATH: launch.model?.path ?? "",
  };
  const env: Record<string, EnvValue> = { ...given };
  const plain: Record<string, string> = { ...given };
  for (const [name, value] of Object.entries(spec.env)) {
    if (typeof value === "string") {
      plain[name] = expand(value, given);
      env[name] = plain[name];
    } else if ("file" in value.valueFrom) env[name] = { file: value.valueFrom.file };
  }
  const command = [...(spec.command ?? launch.command), ...spec.args].map((word) => expand(word, plain));
  return {
    slot,
    role: launch.role,
    hash: workloadHash(input, launch),
    command,
    env,
    workingDir: spec.workingDir,
    host,
    port: launch.port,
    stopSeconds: spec.stopSeconds,
  };
}

/** Why a model cannot be loaded now, or undefined when its file is there. */
export function modelRefusal(
  ref: string,
  model: ModelRecord | undefined,
  known: readonly string[] = [],
): EngineRefusal | undefined {
  if (model === undefined) {
    const close = nearest(ref, known);
    const hint = close === undefined ? "" : `; did you mean ${close}?`;
    return {
      reason: "ModelNotFound",
      message: `no model is called ${ref}: put ${ref}.gguf into the models directory or declare it in models/${hint}`,
    };
  }
  if (model.state === "available") return undefined;
  return { reason: model.reason ?? "ModelUnavailable", message: model.message ?? `model ${ref} is ${model.state}` };
}
