import type { FitFigures } from "../../api/fit.ts";
import type { HardwareFacts } from "../../api/hardware.ts";
import type { ProcessRole } from "../../api/names.ts";
import type { Step } from "../../api/plan.ts";
import type { WantedModel } from "../../models/fetch/wanted-model.ts";
import type { FitSettings } from "../../models/fit/settings.ts";
import type { ModelShape } from "../../models/fit/shape.ts";

/** The memory of devices, as of the last probe or now. */
export type DeviceFacts = Pick<HardwareFacts, "memory" | "gpus">;

/** One process of a slot, as its engine's program is asked for the memory of it. */
export interface PrintedLaunch {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly settings: FitSettings;
  readonly shape: ModelShape;
}

/** A fact on which a decision depends, and that is not known yet: gathering learns nothing, a step does. */
export type Unlearned =
  | { readonly do: "measure"; readonly of: "devices" | "processes" }
  | { readonly do: "readHeader"; readonly role: ProcessRole; readonly model: WantedModel }
  /** `key`: of the figures in the store. */
  | {
      readonly do: "estimate";
      readonly key: string;
      readonly program: string;
      readonly launches: readonly PrintedLaunch[];
    }
  | {
      readonly do: "record";
      readonly key: string;
      readonly measured: NonNullable<FitFigures["figures"][string]["measured"]>;
    };

/** The results of such steps that count for one decision alone. */
export interface Learned {
  /** As of now; `unknown`: they could not be measured. Absent: not measured. */
  readonly devices?: DeviceFacts | "unknown";
  /** The lines that engines' programs have printed, by key; undefined: none that are of use. */
  readonly estimates: ReadonlyMap<string, readonly string[] | undefined>;
}

export const nothingLearned: Learned = { estimates: new Map() };

/** The steps that come before everything else: they decide whether the other steps are right. */
export function learningSteps({ unlearned = [] }: { readonly unlearned?: readonly Unlearned[] }): Step[] {
  return unlearned.map((fact): Step => {
    switch (fact.do) {
      case "measure":
        return { do: "measure", of: fact.of, reason: measureReasons[fact.of] };
      case "readHeader":
        return { do: "readHeader", role: fact.role, reason: `the model ${fact.model.ref} is fetched only if it fits` };
      case "estimate":
        return { do: "estimate", reason: "the engine's own figure decides whether it is started" };
      case "record":
        return { do: "record", reason: "the memory of the loaded slot is the figure for its next start" };
      default:
        return fact satisfies never;
    }
  });
}

const measureReasons = {
  devices: "the free memory of the GPUs decides whether the engine is started",
  processes: "the memory of the loaded slot is the figure for its next start",
} as const;

const learning: ReadonlySet<Step["do"]> = new Set(["measure", "readHeader", "estimate", "record"]);

/** Whether a step changes nothing but what is known. */
export function isLearning(step: Step): boolean {
  return learning.has(step.do);
}

/** Nothing waits for the result: a notable change reconciles the slot again. */
export function isAwaited(fact: Unlearned): boolean {
  return fact.do !== "measure" || fact.of !== "processes";
}
