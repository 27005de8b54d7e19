import { join } from "node:path";
import { estimate, sumOf } from "../../src/models/fit/estimate.ts";
import { settingsOf } from "../../src/models/fit/flags.ts";
import type { ModelShape } from "../../src/models/fit/shape.ts";
import { shapeFrom } from "../support/shape-source.ts";
import { writeShape, type Quantization, type Shape } from "../support/shaped-model.ts";
import { realShapes, shapes } from "../support/shapes.ts";
import { gibibyte, type Card } from "./card.ts";

/** Below this a card holds small stand-ins: the suite asks the same of Berth, with smaller figures. */
const smallCardBytes = 24 * gibibyte;

export type ModelName =
  "large" | "large-q8" | "other" | "small" | "small-f16" | "window" | "experts" | "streams" | "embedder";

/** No real model has so many tokens: contexts are made as large as the card under test. */
const longest = 4_194_304;

function real(name: string, quantization: Quantization, more: Partial<Shape> = {}): Shape {
  const shape = realShapes[name];
  if (shape === undefined) throw new Error(`there is no shape ${name}`);
  return { ...shape, quantization, ...more };
}

/** What each model of the suite is on a card of that size. */
export function shapeOn(card: Card, name: ModelName): Shape {
  const isSmall = card.usableBytes < smallCardBytes;
  switch (name) {
    case "large":
      return isSmall ? { ...shapes.dense, context: longest } : real("llama3-8b", "Q4_K_M", { context: longest });
    case "large-q8":
      return isSmall ? { ...shapes.mixed, context: longest } : real("qwen3-8b", "Q8_0");
    case "other":
      return isSmall
        ? { ...shapes.dense, layers: 10, context: longest }
        : real("qwen3-8b", "Q4_0", { context: longest });
    case "small":
      return isSmall ? { ...shapes.dense, layers: 4, vocabulary: 4096 } : real("qwen3-0.6b", "Q8_0");
    case "small-f16":
    case "embedder":
      return isSmall ? shapes.tied : real("qwen3-0.6b", "F16");
    case "window":
      return isSmall ? shapes.slidingWindow : real("gemma3-4b", "Q4_K_M");
    case "experts":
      return isSmall ? shapes.mixtureOfExperts : real("qwen3-30b-a3b", "Q4_K_M");
    case "streams":
      return isSmall ? { ...shapes.dense, layers: 4, vocabulary: 4096 } : real("tinyllama-1.1b", "Q8_0");
    default:
      return name satisfies never;
  }
}

/** Writes that model, whose weights are holes. */
export async function writeModel(directory: string, card: Card, name: ModelName): Promise<void> {
  await writeShape(join(directory, `${name}.gguf`), shapeOn(card, name));
}

/** The tokens of context with which an engine of that model takes about so many bytes of the card. */
export async function contextFor(card: Card, name: ModelName, bytes: number): Promise<number> {
  const shape = await shapeFrom(shapeOn(card, name), { words: 8 });
  let [least, most] = [1, longest / 1024];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (needOf(shape, middle * 1024) <= bytes) least = middle;
    else most = middle - 1;
  }
  return least * 1024;
}

function needOf(shape: ModelShape, tokens: number): number {
  const flags = ["--ctx-size", String(tokens), "--parallel", "1"];
  const gpus = [{ id: "CUDA0", share: 1, backend: "cuda" as const }];
  const settings = settingsOf(flags, {}, { contextLength: tokens, gpus, projectorBytes: 0 });
  return estimate(shape, settings).gpus.reduce((sum, gpu) => sum + sumOf(gpu), 0);
}
