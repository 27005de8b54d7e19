import type { EngineKind, SlotCapability } from "../api/names.ts";
import type { Engine } from "./engine.ts";
import { declaredProtocols } from "./protocols.ts";
import { probePath, workloadOf } from "./workload.ts";

/**
 * An engine that people run as a container. Until containers land it runs only where the manifest names a `command`
 * (DECISIONS 25), and says so otherwise.
 */
export function containerOnly(kind: EngineKind, capabilities: readonly SlotCapability[], healthPath: string): Engine {
  return {
    kind,
    capabilities: ({ spec }) => spec.capabilities ?? capabilities,
    protocols: declaredProtocols,
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
      const made = workloadOf(input, { role: "main", command: [], identity: undefined, ref: ref ?? slot, model, port });
      return "reason" in made ? made : [made];
    },
    probe: (input) => ({
      path: probePath(input, { role: "main", ref: input.ref ?? input.slot, model: input.model }, healthPath),
      warmUp: undefined,
    }),
    servedModel: ({ ref, slot }) => ref ?? slot,
  };
}
