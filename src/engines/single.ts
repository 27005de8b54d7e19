import type { EngineKind, SlotCapability } from "../api/names.ts";
import type { ModelRecord } from "../api/model.ts";
import type { ContainerNeeds } from "./container.ts";
import { everyPortTaken } from "./engine.ts";
import type { Engine, EngineInput, EngineRefusal, SlotInputs, WarmUp } from "./engine.ts";
import { declaredProtocols } from "./protocols.ts";
import { listenOf, probePath, reachedOn, workloadOf, type Listen } from "./workload.ts";

/** The differences between engines that are a single process. */
export interface SingleProcess {
  readonly kind: EngineKind;
  readonly capabilities: readonly SlotCapability[];
  readonly needs: ContainerNeeds;
  readonly healthPath: string;
  /**
   * The engine's own program and arguments; undefined: the image's. `identity` leaves out values that may change
   * without a restart.
   */
  launch(
    input: EngineInput,
    listen: Listen,
  ): { readonly command: readonly string[]; readonly identity: unknown } | EngineRefusal;
  readonly join?: (words: readonly string[]) => readonly string[];
  warmUp(input: SlotInputs): WarmUp | undefined;
  servedModel?(input: SlotInputs): string;
  /** The record whose files the engine reads, if any. */
  model?(input: SlotInputs): ModelRecord | undefined;
}

/** An engine of one process or container per slot. */
export function singleProcess(single: SingleProcess): Engine {
  return {
    kind: single.kind,
    capabilities: ({ spec }) => spec.capabilities ?? single.capabilities,
    protocols: declaredProtocols,
    roles: () => ["main"],
    workloads(input) {
      const { ref, slot } = input;
      const port = reachedOn(input, "main", single.needs);
      if (port === undefined) return everyPortTaken;
      const launch =
        input.spec.command === undefined
          ? single.launch(input, listenOf(input, port, single.needs))
          : { command: [], identity: undefined };
      if ("reason" in launch) return launch;
      const model = single.model === undefined ? input.model : single.model(input);
      const { needs: container, join } = single;
      const made = workloadOf(input, {
        role: "main",
        ...launch,
        ref: ref ?? slot,
        model,
        port,
        container,
        ...(join === undefined ? {} : { join }),
      });
      return "reason" in made ? made : [made];
    },
    probe: (input) => ({
      path: probePath(input, { ref: input.ref ?? input.slot, model: input.model }, single.healthPath),
      // A command of the manifest's own may answer in another way.
      warmUp: input.spec.command === undefined ? single.warmUp(input) : undefined,
    }),
    servedModel: (input) => single.servedModel?.(input) ?? input.ref ?? input.slot,
  };
}

/** Why an engine that is shipped only as a container cannot be a process. */
export function containerNeeded({ placement }: SlotInputs, kind: EngineKind): EngineRefusal | undefined {
  if (placement.runs !== "program") return undefined;
  return {
    reason: "NoRuntime",
    message: `the ${kind} engine runs in a container and no container engine is chosen or answers: set runtime = "docker", name a command, or disable the slot`,
  };
}
