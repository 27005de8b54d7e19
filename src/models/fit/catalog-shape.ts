import type { CatalogShape } from "../../api/catalog.ts";
import type { LayerShape } from "./layers.ts";
import type { ModelShape } from "./shape.ts";

/**
 * The shape of a model of which only the catalogue's lengths and its size are known. All layers count as equally large,
 * and the vocabulary's weights as packed like the rest. The error is a few per cent for files that mix types.
 */
export function catalogModelShape(
  lengths: CatalogShape,
  sizeBytes: number,
  contextLength: number | undefined,
): ModelShape {
  const { layers, width, heads, keyValueHeads, headWidth, feedForward, vocabulary, isTied, window, isEncoder } =
    lengths;
  const cached = keyValueHeads * headWidth;
  const inLayer = width * (2 * heads * headWidth + 2 * cached) + 3 * width * feedForward;
  const words = vocabulary * width;
  const bytesEach = sizeBytes / (layers * inLayer + words * (isTied ? 1 : 2));
  const layer = (index: number): LayerShape => ({
    bytes: inLayer * bytesEach,
    expertBytes: 0,
    largestBytes: width * feedForward * bytesEach,
    ...(isEncoder
      ? {}
      : {
          cache: {
            keyWidth: cached,
            valueWidth: cached,
            isWindowed: window !== undefined && index % window.every < window.every - 1,
          },
        }),
    isShared: false,
    stateWidth: 0,
    heads,
    attention: 3 * heads * headWidth + 2 * width + 2 * cached,
    widest: 3 * feedForward + 2 * width + heads * headWidth,
  });
  return {
    architecture: lengths.architecture,
    layers: Array.from({ length: layers }, (_, index) => layer(index)),
    lookupBytes: words * bytesEach,
    outputBytes: words * bytesEach,
    isTied,
    width,
    vocabulary,
    outputs: isEncoder ? 0 : vocabulary,
    contextLength,
    window: window?.tokens,
    hasCache: !isEncoder,
    hasFullWeights: false,
    files: { mappedBytes: sizeBytes, repackedBytes: 0 },
  };
}
