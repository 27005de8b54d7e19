import type { HardwareFacts } from "../../api/hardware.ts";
import type { SlotSpec } from "../../api/slot.ts";
import { estimate } from "./estimate.ts";
import { isBeyondHeader, settingsOf } from "./flags.ts";
import { deviceFor, withoutFree } from "./host-fit.ts";
import { declaredRequirement, requirementOf, reserveLess, reserving } from "./need.ts";
import type { ModelShape } from "./shape.ts";
import { smaller, smallerText } from "./smaller.ts";
import { judge } from "./verdict.ts";

/** The smallest context of an engine whose manifest names none. */
const leastContext = 4096;

/** The reason why no engine on this machine can load the model as declared; undefined: a load may succeed. */
export interface SpecRefusal {
  readonly message: string;
  readonly device: string;
  readonly needBytes: number;
  readonly budgetBytes: number;
}

/**
 * Whether a llama.cpp slot can work on the machine with nothing else on it. `backend`: the choice of `auto`. The
 * program of the engine is not known here, so an automatic backend is refused only if the processor cannot hold the
 * model either.
 */
export function specFit(
  spec: Pick<SlotSpec, "model" | "args" | "env" | "backend">,
  shape: ModelShape,
  hardware: Pick<HardwareFacts, "memory" | "gpus">,
  backend: string | undefined,
): SpecRefusal | undefined {
  if (spec.model.spill === "allow" || isBeyondHeader(spec.args)) return undefined;
  const tried = spec.backend === "auto" ? [backend, "cpu"] : [spec.backend];
  const refusals = tried.map((each) => refusal(spec, shape, hardware, each));
  return refusals.every((found) => found !== undefined) ? refusals[0] : undefined;
}

/**
 * Whether the figures that a slot's manifest and its model declare fit the machine with nothing else on it. `known`: the
 * model's figures, where no better figure of it is known.
 */
export function declaredFit(
  spec: Pick<SlotSpec, "model" | "resources" | "replicas" | "backend" | "runtime">,
  known: { readonly memoryBytes?: number | undefined; readonly minVramBytes?: number | undefined } | undefined,
  { memory, gpus }: Pick<HardwareFacts, "memory" | "gpus">,
  backend: string | undefined,
): (SpecRefusal & { readonly isByManifest: boolean }) | undefined {
  if (spec.model.spill === "allow") return undefined;
  const processes = (spec.replicas ?? 1) * (spec.model.rerank === undefined ? 1 : 2);
  const reserved = spec.resources.memoryBytes === undefined ? undefined : spec.resources.memoryBytes * processes;
  // A container is not in the service's control group.
  const whole =
    spec.runtime === "process" ? memory : { ...memory, usable_bytes: memory.total_bytes, limit_bytes: null };
  const tried = spec.backend === "auto" ? [backend, "cpu"] : [spec.backend];
  const refusals = tried.map((each) => {
    const found = deviceFor({ memory: whole, gpus }, each);
    const figures = { memoryBytes: known?.memoryBytes, gpuBytes: known?.minVramBytes };
    const requirement = reserving(declaredRequirement(figures, found.gpus[0]?.id), reserved);
    if (requirement === undefined) return undefined;
    const { kind, message, device, needBytes, budgetBytes, isByManifest } = judge(
      requirement,
      found.budgets.map(withoutFree),
    );
    if (kind !== "does_not_fit" || budgetBytes === undefined) return undefined;
    const advice = isByManifest === true ? reserveLess : "a smaller model or quantisation may fit";
    return { message: `${message}; ${advice}`, device, needBytes, budgetBytes, isByManifest: isByManifest === true };
  });
  return refusals.every((found) => found !== undefined) ? refusals[0] : undefined;
}

function refusal(
  { model, args, env }: Parameters<typeof specFit>[0],
  shape: ModelShape,
  hardware: Pick<HardwareFacts, "memory" | "gpus">,
  backend: string | undefined,
): SpecRefusal | undefined {
  const { gpus, budgets } = deviceFor(hardware, backend);
  const longest = shape.contextLength ?? leastContext;
  const tokens = (model.contextSize ?? Math.min(longest, leastContext)) * model.parallel;
  const words = [
    "--ctx-size",
    String(tokens),
    "--parallel",
    String(model.parallel),
    ...(model.gpuLayers === undefined ? [] : ["--n-gpu-layers", String(model.gpuLayers)]),
    ...args,
  ];
  const plain = Object.entries(env).flatMap(([key, value]) => (typeof value === "string" ? [[key, value]] : []));
  const settings = settingsOf(words, Object.fromEntries(plain), { contextLength: longest, gpus, projectorBytes: 0 });
  const beside = { processBytes: 0, promptCacheBytes: model.promptCacheBytes ?? 0 };
  const totals = budgets.map(withoutFree);
  const { kind, message, device, needBytes, budgetBytes } = judge(
    requirementOf(estimate(shape, settings), beside, "header"),
    totals,
  );
  if (kind !== "does_not_fit" || budgetBytes === undefined) return undefined;
  const advice = smallerText(smaller(shape, settings, totals, beside)) ?? "a smaller model or quantisation may fit";
  return { message: `${message}; ${advice}`, device, needBytes: Math.round(needBytes), budgetBytes };
}
