import type { EngineKind, SlotCapability } from "../api/names.ts";
import type { Engine } from "./engine.ts";
import { workloadOf } from "./workload.ts";

/**
 * An engine that people run as a container. Until containers land it runs only where the manifest names a `command`
 * (DECISIONS 25), and says so otherwise.
 */
export function containerOnly(kind: EngineKind, capabilities: readonly SlotCapability[], probePath: string): Engine {
  return {
    kind,
    capabilities: ({ spec }) => spec.capabilities ?? capabilities,
    roles: () => ["main"],
    workloads(input) {
      const { spec, ref, model, slot } = input;
      if (spec.command === undefined) {
        return {
          reason: "NoRuntime",
          message: `the ${kind} engine runs in a container, which this version cannot start: name a command, or disable the slot`,
        };
      }
      const port = input.ports.main;
      if (port === undefined) return { reason: "NoFreePort", message: "every engine port is taken" };
      return [workloadOf(input, { role: "main", command: [], identity: undefined, ref: ref ?? slot, model, port })];
    },
    probe: ({ spec }) => ({ path: spec.probe.path ?? probePath, warmUp: undefined }),
    servedModel: ({ ref, slot }) => ref ?? slot,
  };
}
