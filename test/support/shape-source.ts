import type { ByteSource } from "../../src/models/byte-source.ts";
import { readGgufHeader } from "../../src/models/gguf-header.ts";
import { shapeOf, type ModelShape } from "../../src/models/fit/shape.ts";
import { headerOf, type Shape } from "./shaped-model.ts";

/** A file of which nothing but its header is anywhere. */
export function headerSource(shape: Shape, options: Parameters<typeof headerOf>[1] = {}): ByteSource {
  const { header, sizeBytes } = headerOf(shape, options);
  return {
    sizeBytes,
    windowBytes: 64 * 1024,
    readRange: async (start, length) => header.subarray(start, start + length),
  };
}

/** As it is read from a file of that shape. `words`: how long the vocabulary is that is spelt out. */
export async function shapeFrom(shape: Shape, options: { readonly words?: number } = {}): Promise<ModelShape> {
  return shapeOf([await readGgufHeader(headerSource(shape, options))]);
}
