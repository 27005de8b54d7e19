import { everyPortTaken, type Engine } from "./engine.ts";
import { declaredProtocols } from "./protocols.ts";
import { modelRefusal, probePath, reachedOn, workloadOf } from "./workload.ts";

// Nothing is known of the image: it may write to its own files.
const container = { port: 8080, writesRoot: true } as const;

/** Any program with the OpenAI API on `$(HOST):$(PORT)`: vLLM, SGLang, a shell script (RESOURCES "Slot"). */
export const custom = {
  kind: "custom",
  capabilities: ({ spec }) => spec.capabilities ?? ["chat", "completions"],
  protocols: declaredProtocols,
  roles: () => ["main"],
  workloads(input) {
    const { spec, ref, model, slot } = input;
    if (spec.command === undefined && input.placement.runs === "program") {
      return { reason: "NoRuntime", message: "as a process the slot needs a command; an image runs as a container" };
    }
    // An undeclared ref belongs to the engine alone; a declared model must be on disk.
    const refusal = model === undefined ? undefined : modelRefusal("custom", model.ref, model);
    if (refusal !== undefined) return refusal;
    const port = reachedOn(input, "main", container);
    if (port === undefined) return everyPortTaken;
    const made = workloadOf(input, {
      role: "main",
      command: [],
      identity: undefined,
      ref: ref ?? slot,
      model,
      port,
      container,
    });
    return "reason" in made ? made : [made];
  },
  probe: (input) => ({
    path: probePath(input, { ref: input.ref ?? input.slot, model: input.model }, "/health"),
    warmUp: undefined,
  }),
  servedModel: ({ ref, slot }) => ref ?? slot,
} as const satisfies Engine;
