import type { Compute } from "../api/compute.ts";

const mebibyte = 1024 ** 2;

/**
 * The line where llama.cpp begins to load weights: earlier lines belong to an attempt to fit, or to an earlier start. Without
 * the limit a long line would be searched once for each of its words.
 */
const beginning = /load_tensors: loading model tensors|offload(?:ing|ed) \d+.{0,64} layers to GPU/;
const offloaded = /offloaded (\d+)\/(\d+) layers to GPU/;
const layers = /print_info: n_layer +(?:= *)(\d+)/;
/** A name begins a word and has an end: a log may hold a megabyte without a blank. */
const buffer = /(?<!\S)(\S{1,64}) +(?:model|KV|RS|compute|output) buffer size = +([\d.]+) MiB/g;
/** Memory of the host, pinned for a GPU or rearranged for the processor. */
const ofHost = /^CPU|_Host$|^BLAS$/;

/**
 * The devices that llama.cpp's log names; undefined without such lines. Without a GPU llama.cpp may still count layers
 * as offloaded: where no GPU holds a buffer of the model, no layer is.
 */
export function computeIn(log: string): Compute | undefined {
  const start = log.search(beginning);
  if (start < 0) return undefined;
  const loadLog = log.slice(start);
  const counts = offloaded.exec(loadLog);
  const buffers = new Map<string, number>();
  const holding = new Set<string>();
  for (const [line, device = "", mebibytes] of loadLog.matchAll(buffer)) {
    if (ofHost.test(device)) continue;
    const bytes = Math.round(Number(mebibytes) * mebibyte);
    buffers.set(device, (buffers.get(device) ?? 0) + bytes);
    // A GPU may compute without holding a layer.
    if (bytes > 0 && !line.includes("compute")) holding.add(device);
  }
  const isOnGpu = holding.size > 0;
  const all = layers.exec(log)?.[1];
  const total = counts?.[2] ?? (all === undefined ? undefined : String(Number(all) + 1));
  return {
    devices: [...holding].toSorted(),
    ...(total === undefined
      ? {}
      : { layersOffloaded: isOnGpu ? Number(counts?.[1] ?? 0) : 0, layersTotal: Number(total) }),
    ...(buffers.size === 0 ? {} : { buffers: [...buffers].map(([device, bytes]) => ({ device, bytes })) }),
  };
}
