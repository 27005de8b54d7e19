import type { HardwareFacts } from "../../api/hardware.ts";
import type { SlotSpec } from "../../api/slot.ts";
import { estimate } from "./estimate.ts";
import { isBeyondHeader, settingsOf } from "./flags.ts";
import { deviceFor, withoutFree } from "./host-fit.ts";
import { requirementOf } from "./need.ts";
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
