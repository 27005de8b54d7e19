import type { Budget } from "./budget.ts";
import { estimate } from "./estimate.ts";
import { requirementOf, type Beside } from "./need.ts";
import type { FitSettings } from "./settings.ts";
import type { ModelShape } from "./shape.ts";
import { judge } from "./verdict.ts";

/** A smaller context for one request is of no use for chat. */
const leastContext = 2048;

/** Settings with which a model would fit; each of them suffices alone. */
export interface Smaller {
  /** Tokens for each request. */
  readonly contextSize?: number;
  /** The number of layers on the GPU, with the other layers on the processor. */
  readonly gpuLayers?: number;
}

/** Finds the largest context, and the most layers on a GPU, with which the model fits. */
export function smaller(shape: ModelShape, settings: FitSettings, budgets: readonly Budget[], beside: Beside): Smaller {
  const fits = (changed: Partial<FitSettings>): boolean =>
    judge(requirementOf(estimate(shape, { ...settings, ...changed }), beside, "header"), budgets).kind === "fits";
  const contextSize = largestContext(settings, (contextTokens) => fits({ contextTokens }));
  const gpuLayers = settings.gpus.length === 0 ? undefined : mostLayers(shape, (count) => fits({ gpuLayers: count }));
  return {
    ...(contextSize === undefined ? {} : { contextSize }),
    ...(gpuLayers === undefined ? {} : { gpuLayers }),
  };
}

/** A text such as `with context_size 65536, or with gpu_layers 26 and spill = "allow"`; undefined: no setting helps. */
export function smallerText({ contextSize, gpuLayers }: Smaller): string | undefined {
  const ways = [
    ...(contextSize === undefined ? [] : [`context_size ${contextSize}`]),
    ...(gpuLayers === undefined ? [] : [`gpu_layers ${gpuLayers}, which is slower`]),
  ];
  return ways.length === 0 ? undefined : `it fits with ${ways.join(", or with ")}`;
}

function largestContext(
  { contextTokens, places, isUnified }: FitSettings,
  fits: (contextTokens: number) => boolean,
): number | undefined {
  const shares = isUnified ? 1 : places;
  for (let each = 2 ** Math.ceil(Math.log2(contextTokens / shares) - 1); each >= leastContext; each /= 2) {
    if (fits(each * shares)) return each;
  }
  return undefined;
}

function mostLayers({ layers }: ModelShape, fits: (count: number) => boolean): number | undefined {
  for (let count = layers.length; count > 0; count--) if (fits(count)) return count;
  return undefined;
}
