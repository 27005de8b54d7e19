import { cacheBytes, cellsOf, contextBytes, ubatchOf, windowCells, type CacheType } from "../../api/context-cost.ts";
import { contextCostOf } from "./context-cost.ts";
import type { LayerShape } from "./layers.ts";
import type { FitSettings, GpuShare } from "./settings.ts";
import type { ModelShape } from "./shape.ts";

/** The memory on one device, in bytes. */
export interface DeviceNeed {
  /** `host`, or the engine's name for a GPU. */
  readonly id: string;
  readonly weights: number;
  /** The caches of tokens and the states of sequences. */
  readonly cache: number;
  /** The work buffers of a batch. */
  readonly compute: number;
  /** The output buffers of requests. */
  readonly output: number;
  /** The memory that the driver takes before a model is loaded. The engine does not report this. */
  readonly driver: number;
}

export interface Estimate {
  readonly host: DeviceNeed;
  readonly gpus: readonly DeviceNeed[];
  /**
   * The part of the host's weights that are mapped files, which the kernel may drop and read again. The kernel cannot
   * take back any other part.
   */
  readonly mappedBytes: number;
  /** The part of the mapped weights that is not read again after the load: the engine has rearranged copies. */
  readonly unusedMappedBytes: number;
}

/** Measured with `llama-server` on an H100. Other drivers were not measured, and get the same value. */
const driverBytes = { context: 600 * 1024 ** 2, library: 120 * 1024 ** 2 } as const;
const f32 = 4;

/**
 * The memory of a model on each device, from its shape alone: the `header` stage. Pure. Sums are those of llama.cpp's own log
 * (`model`, `KV`, `RS`, `compute` and `output buffer size`); where no formula is exact, this errs upwards.
 */
export function estimate(shape: ModelShape, settings: FitSettings): Estimate {
  const placing = placed(shape, settings);
  const gpus = settings.gpus.map((gpu) => gpuNeed(shape, settings, placing, gpu));
  const hasGpu = gpus.length > 0;
  const onHost = shape.layers.filter((_, index) => placing.of[index] === undefined);
  const isOutputHere = placing.output === undefined;
  const layerBytes = onHost.reduce((sum, { bytes }) => sum + bytes, 0);
  const copies = hasGpu ? 0 : shape.files.repackedBytes;
  const mapped = hasGpu ? layerBytes + shape.lookupBytes : shape.files.mappedBytes;
  // Tied embeddings are in memory once if no layer is on a GPU.
  const output = hasGpu && isOutputHere && !shape.isTied ? shape.outputBytes : 0;
  const cached = settings.isCacheOffloaded && hasGpu ? onHost : shape.layers;
  // The GPU computes batches also for weights in the machine's memory; the inputs are in memory twice.
  const inputs = (hasGpu ? 2 : 1) * ubatchOf(settings) * shape.width * f32;
  return {
    host: {
      id: "host",
      weights: mapped + output + copies + (hasGpu ? 0 : settings.projectorBytes),
      cache: cacheOf(shape, settings, cached),
      compute: (hasGpu ? 0 : widest(shape, settings, shape.layers)) + inputs + maskOf(shape, settings),
      output: outputOf(shape, settings),
      driver: 0,
    },
    gpus,
    mappedBytes: mapped + output,
    unusedMappedBytes: copies === 0 ? 0 : Math.min(mapped, copies),
  };
}

/** The memory on a device in total. */
export function sumOf({ weights, cache, compute, output, driver }: DeviceNeed): number {
  return weights + cache + compute + output + driver;
}

interface Placing {
  /** The GPU that holds each layer; undefined: none. */
  readonly of: readonly (GpuShare | undefined)[];
  readonly output: GpuShare | undefined;
}

/** The last layers are on GPUs. The output layer counts as one more layer at the end. */
function placed({ layers }: ModelShape, { gpus, gpuLayers }: FitSettings): Placing {
  const wanted = gpus.length === 0 ? 0 : Math.min(gpuLayers ?? Infinity, layers.length + 1);
  const first = layers.length + 1 - wanted;
  const whole = gpus.reduce((sum, { share }) => sum + share, 0);
  const holder = (index: number): GpuShare | undefined => {
    if (index < first) return undefined;
    let upTo = 0;
    for (const gpu of gpus) {
      upTo += gpu.share / whole;
      if ((index - first) / wanted < upTo) return gpu;
    }
    return gpus.at(-1);
  };
  return { of: layers.map((_, index) => holder(index)), output: holder(layers.length) };
}

function gpuNeed(shape: ModelShape, settings: FitSettings, placing: Placing, gpu: GpuShare): DeviceNeed {
  const own = shape.layers.filter((_, index) => placing.of[index] === gpu);
  const others = shape.layers.filter((_, index) => placing.of[index] === undefined);
  const isFirst = settings.gpus[0] === gpu;
  const output = placing.output === gpu ? shape.outputBytes : 0;
  // Weights of the other layers, and their caches, are copied to the GPU one by one.
  const borrowed = isFirst
    ? Math.max(0, ...others.map((layer) => Math.max(layer.largestBytes, cacheOf(shape, settings, [layer]))))
    : 0;
  const worked = isFirst ? [...own, ...others] : own;
  const masks = own.length === 0 ? 0 : maskOf(shape, settings);
  const compute = worked.length === 0 ? 0 : widest(shape, settings, worked) + masks + borrowed;
  const usesLibrary =
    gpu.backend === "cuda" &&
    (!settings.hasFlashAttention ||
      settings.isEmbedding ||
      shape.hasFullWeights ||
      shape.layers.some(({ expertBytes }) => expertBytes > 0));
  return {
    id: gpu.id,
    weights: own.reduce((sum, { bytes }) => sum + bytes, 0) + output + (isFirst ? settings.projectorBytes : 0),
    cache: settings.isCacheOffloaded ? cacheOf(shape, settings, own) : 0,
    compute,
    output: 0,
    driver: driverBytes.context + (usesLibrary ? driverBytes.library : 0),
  };
}

function cacheOf(shape: ModelShape, settings: FitSettings, layers: readonly LayerShape[]): number {
  return contextBytes(contextCostOf(shape, layers, settings.hasFlashAttention), settings);
}

/** The work buffer of the widest layer in bytes, without the attention mask. */
function widest(shape: ModelShape, settings: FitSettings, layers: readonly LayerShape[]): number {
  const batch = ubatchOf(settings);
  const { cells, streams } = cellsOf(settings);
  const windowed = windowCells(shape.window, settings);
  let bytes = 0;
  for (const layer of layers) {
    const states = layer.stateWidth * settings.places * f32;
    bytes = Math.max(bytes, batch * layer.widest * f32 + states);
    if (layer.cache === undefined) continue;
    const seen = layer.cache.isWindowed ? windowed : cells;
    const attention = batch * layer.attention * f32;
    if (!settings.hasFlashAttention) bytes = Math.max(bytes, attention + layer.heads * seen * batch * f32);
    else if (settings.gpus.length > 0) {
      // GPUs convert a quantised cache to a copy in f16.
      const keys = isQuantised(settings.keyType) ? layer.cache.keyWidth : 0;
      const values = isQuantised(settings.valueType) ? layer.cache.valueWidth : 0;
      bytes = Math.max(bytes, attention + seen * streams * (keys + values) * 2);
    }
  }
  return Math.max(bytes, logitsOf(shape, settings));
}

/** The output values of each token in an embedding batch. Other batches have few outputs, which count as 0. */
export function logitsOf(shape: ModelShape, settings: FitSettings): number {
  if (!settings.isEmbedding) return 0;
  return ubatchOf(settings) * (shape.outputs + shape.width) * f32;
}

/** The attention masks, one for each kind of cache. */
function maskOf(shape: ModelShape, settings: FitSettings): number {
  const each = ubatchOf(settings) * (settings.hasFlashAttention ? 2 : f32);
  const caches = shape.layers.flatMap(({ cache }) => cache ?? []);
  if (!shape.hasCache) return 0;
  const whole = caches.some(({ isWindowed }) => !isWindowed) ? cellsOf(settings).cells : 0;
  const windowed = caches.some(({ isWindowed }) => isWindowed) ? windowCells(shape.window, settings) : 0;
  return (whole + windowed) * each;
}

function outputOf(shape: ModelShape, settings: FitSettings): number {
  return settings.places * (shape.outputs + (settings.isEmbedding ? shape.width : 0)) * f32;
}

function isQuantised(type: CacheType): boolean {
  return cacheBytes[type] < 2;
}
