import type { Engine } from "./engine.ts";
import { workloadOf } from "./workload.ts";

/** Anything that speaks the OpenAI API on `$(HOST):$(PORT)`: vLLM, SGLang, a shell script (RESOURCES "Slot"). */
export const custom = {
  kind: "custom",
  capabilities: ({ spec }) => spec.capabilities ?? ["chat", "completions"],
  roles: () => ["main"],
  workloads(input) {
    const { spec, ref, model, slot } = input;
    if (spec.command === undefined) {
      return { reason: "NoRuntime", message: "this version runs processes only: the slot needs a command" };
    }
    if (model !== undefined && model.state !== "available") {
      return {
        reason: model.reason ?? "ModelUnavailable",
        message: model.message ?? `model ${model.ref} is ${model.state}`,
      };
    }
    const port = input.ports.main;
    if (port === undefined) return { reason: "NoFreePort", message: "every engine port is taken" };
    return [workloadOf(input, { role: "main", command: [], identity: undefined, ref: ref ?? slot, model, port })];
  },
  probe: ({ spec }) => ({ path: spec.probe.path ?? "/health", warmUp: undefined }),
  servedModel: ({ ref, slot }) => ref ?? slot,
} as const satisfies Engine;
