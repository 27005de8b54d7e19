import { createHash } from "node:crypto";
import type { Container } from "../api/workload.ts";
import type { EngineInput } from "./engine.ts";
import type { Launch } from "./launch.ts";

/**
 * The hash of everything whose change must restart the engine (DECISIONS 2): the parts of the spec that reach its
 * command line, environment or sandbox, and the model's identity. Labels, idle time, concurrency, aliases, probes and
 * derived values (threads, automatic port, which llama.cpp build) are not in it.
 */
export function workloadHash({ spec, slot, placement }: EngineInput, launch: Launch, container?: Container): string {
  const { engine, backend, program, model, command, args, env, workingDir, mounts, devices, shmSizeBytes } = spec;
  const identity = {
    slot,
    role: launch.role,
    engine,
    backend,
    program,
    model: {
      ref: launch.ref,
      files: launch.model?.files,
      sha256: launch.model?.sha256,
      contextSize: model.contextSize,
      gpuLayers: model.gpuLayers,
      parallel: model.parallel,
      threads: model.threads,
      spill: model.spill,
      promptCacheBytes: model.promptCacheBytes,
      // A change of the limits of keepContext restarts nothing.
      keepContext: model.keepContext === undefined ? undefined : true,
      projector: model.projector,
    },
    command,
    args,
    env,
    workingDir,
    // An automatic port is kept while the engine runs and is no reason to restart it.
    port: launch.role === "main" ? spec.port : undefined,
    mounts,
    devices,
    shmSizeBytes,
    runtime: placement.runtime,
    image: container?.image,
    podTemplate: container?.pod?.template,
    resources: spec.resources,
    launch: launch.identity,
  };
  return createHash("sha256").update(stable(identity)).digest("hex").slice(0, 16);
}

function stable(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
