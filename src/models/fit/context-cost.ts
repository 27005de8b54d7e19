import type { ContextCost } from "../../api/context-cost.ts";
import type { GgufHeader } from "../gguf-header.ts";
import type { LayerShape } from "./layers.ts";
import { shapeOf, UnknownShape, type ModelShape } from "./shape.ts";

/** The sizes of the context in these layers of the model. */
export function contextCostOf(
  shape: ModelShape,
  layers: readonly LayerShape[] = shape.layers,
  hasFlashAttention = true,
): ContextCost {
  const widestValue = Math.max(0, ...shape.layers.map(({ cache }) => cache?.valueWidth ?? 0));
  const isHybrid = shape.layers.some(({ stateWidth }) => stateWidth > 0);
  const whole = { keyWidth: 0, valueWidth: 0 };
  const windowed = { keyWidth: 0, valueWidth: 0 };
  let stateWidth = 0;
  for (const layer of layers) {
    stateWidth += layer.stateWidth;
    // Without flash attention values are stored transposed, all with the largest width, also in layers without values.
    const isPadded = !hasFlashAttention && !isHybrid && !layer.isShared;
    const cache = layer.cache ?? (isPadded ? { keyWidth: 0, valueWidth: 0, isWindowed: false } : undefined);
    if (cache === undefined || !shape.hasCache) continue;
    const sum = cache.isWindowed && shape.window !== undefined ? windowed : whole;
    sum.keyWidth += cache.keyWidth;
    sum.valueWidth += hasFlashAttention ? cache.valueWidth : widestValue;
  }
  const { window } = shape;
  const hasWindow = window !== undefined && windowed.keyWidth + windowed.valueWidth > 0;
  return { ...whole, ...(hasWindow ? { window: { tokens: window, ...windowed } } : {}), stateWidth };
}

/** The same by the headers of the model's files, in order; undefined where their layers are not known. */
export function contextCostIn(headers: readonly GgufHeader[]): ContextCost | undefined {
  let shape: ModelShape;
  try {
    shape = shapeOf(headers);
  } catch (error) {
    if (error instanceof UnknownShape) return undefined;
    throw error;
  }
  const cost = contextCostOf(shape);
  const widths = [cost, cost.window ?? { keyWidth: 0, valueWidth: 0 }].flatMap((each) => [
    each.keyWidth,
    each.valueWidth,
  ]);
  const sizes = [...widths, cost.stateWidth];
  // A model that keeps earlier tokens and seems to need nothing for that is of a kind that this version does not know.
  const isKnown = !shape.hasCache || sizes.some((size) => size > 0);
  return isKnown && sizes.every((size) => Number.isSafeInteger(size) && size >= 0) ? cost : undefined;
}
