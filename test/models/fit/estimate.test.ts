import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { engineEstimate } from "../../../src/models/fit/engine-figures.ts";
import { estimate, sumOf, type DeviceNeed, type Estimate } from "../../../src/models/fit/estimate.ts";
import { settingsOf } from "../../../src/models/fit/flags.ts";
import { shapeOf } from "../../../src/models/fit/shape.ts";
import type { GpuShare } from "../../../src/models/fit/settings.ts";
import { readGgufHeader } from "../../../src/models/gguf-header.ts";
import { ggufBytes } from "../../support/gguf.ts";
import { headerSource, shapeFrom } from "../../support/shape-source.ts";
import { bytesOf, headerOf, tensorsOf, type Shape } from "../../support/shaped-model.ts";
import { shapes } from "../../support/shapes.ts";

const cuda: GpuShare = { id: "CUDA0", share: 1, backend: "cuda" };
const mebibyte = 1024 ** 2;

async function need(
  shape: Shape,
  flags: string,
  gpus: readonly GpuShare[] = [],
  projectorBytes = 0,
): Promise<Estimate> {
  const read = await shapeFrom(shape, { words: 8 });
  return estimate(read, settingsOf(flags.split(" "), {}, { contextLength: read.contextLength, gpus, projectorBytes }));
}

async function onGpu(shape: Shape, flags: string): Promise<DeviceNeed> {
  const [gpu] = (await need(shape, flags, [cuda])).gpus;
  assert.ok(gpu !== undefined);
  return gpu;
}

/** Of a sliding window every sixth of 14 layers sees everything; the others no more than the window and a batch. */
const windowed = (cells: number, inWindow: number): number => (2 * cells + 12 * inWindow) * 4 * 128 * 2 * 2;
/** What a recurrent model keeps of one request, however long its context is. */
const state = 12 * (3 * (2048 + 2 * 128) + 128 * 2048) * 4;
const heads = shapes.perLayerHeads.keyValueHeads.reduce<number>((sum, count) => sum + count, 0);
const f16 = 65_536 * 12 * 8 * 128 * 2 * 2;

describe("the cache of a context", () => {
  for (const [name, flags, bytes] of [
    ["perLayerHeads", "-c 4096", 4096 * heads * 64 * 2 * 2],
    ["slidingWindow", "-c 131072", windowed(131_072, 1024)],
    ["slidingWindow", "-c 512", windowed(512, 512)],
    ["slidingWindow", "-c 8192 --swa-full", windowed(8192, 8192)],
    ["slidingWindow", "-c 8192 -np 4", 4 * windowed(2048, 1024)],
    ["slidingWindow", "-c 8192 -np 4 -kvu", windowed(8192, 2560)],
    ["stateSpace", "-c 1024", state],
    ["stateSpace", "-c 131072", state],
    ["stateSpace", "-c 131072 -np 4", 4 * state],
    // What all heads share.
    ["latent", "-c 4096", 4096 * 12 * (256 + 64) * 2],
    // In blocks with their scales.
    ["qwen3", "-c 65536", f16],
    ["qwen3", "-c 65536 -ctk q8_0 -ctv q8_0", (f16 / 2) * (34 / 32)],
    ["qwen3", "-c 65536 -ctk q4_0", f16 / 2 + (f16 / 4) * (18 / 32)],
    ["qwen3", "-c 65536 -ctk unheard-of", f16],
  ] as const)
    it(`${name} ${flags}: ${bytes} bytes`, async () => {
      assert.equal((await need(shapes[name], flags)).host.cache, bytes);
    });

  it("grows in a hybrid by its layers of attention alone", async () => {
    const { host } = await need(shapes.hybrid, "-c 1024");
    assert.equal((await need(shapes.hybrid, "-c 2048")).host.cache - host.cache, 1024 * 4 * 2 * 4 * 64 * 2);
  });
});

const tensorBytes = (shape: Shape, wanted: RegExp): number =>
  tensorsOf(shape).reduce((sum, tensor) => sum + (wanted.test(tensor.name) ? bytesOf(tensor) : 0), 0);
const outputBytes = tensorBytes(shapes.dense, /^output/);

describe("the weights on a GPU", () => {
  for (const [name, flags, tensors, projector] of [
    // The output layer counts among the layers, and is the first to be placed.
    ["dense", "-c 4096 -ngl 0", /^none/],
    ["dense", "-c 4096 -ngl 1", /^output/],
    ["dense", "-c 4096 -ngl 2", /^output|^blk\.11\./],
    ["dense", "-c 4096 -ngl 13", /^output|^blk/],
    ["dense", "-c 4096 -ngl 99", /^output|^blk/],
    // Tied embeddings count twice: on the host, too.
    ["tied", "-c 4096", /^token_embd|^blk|^output_norm/],
    ["mixtureOfExperts", "-c 4096", /^blk|^output/],
    ["dense", "-c 4096", /^output|^blk/, 5e8],
  ] as const)
    it(`${name} ${flags}: ${tensors.source}${projector === undefined ? "" : " and a projector"}`, async () => {
      const { gpus } = await need(shapes[name], flags, [cuda], projector);
      assert.equal(gpus[0]?.weights, tensorBytes(shapes[name], tensors) + (projector ?? 0));
    });

  it("leave their part of the cache there, and tied embeddings on the host", async () => {
    const [none, one, all] = await Promise.all(
      [0, 2, 13].map((layers) => onGpu(shapes.dense, `-c 4096 -ngl ${layers}`)),
    );
    assert.deepEqual([none?.cache, (one?.cache ?? 0) * 12], [0, all?.cache]);
    assert.equal((await need(shapes.tied, "-c 4096", [cuda])).host.weights, tensorBytes(shapes.tied, /^token_embd/));
    const plain = await need(shapes.dense, "-c 4096");
    assert.equal((await need(shapes.dense, "-c 4096", [], 5e8)).host.weights - plain.host.weights, 5e8);
  });

  it("are divided among GPUs by their shares, and the last one has the output", async () => {
    const both = await need(shapes.dense, "-c 4096", [cuda, { ...cuda, id: "CUDA1", share: 3 }]);
    const whole = await onGpu(shapes.dense, "-c 4096");
    assert.deepEqual(
      both.gpus.map(({ id }) => id),
      ["CUDA0", "CUDA1"],
    );
    const sum = (key: "weights" | "cache"): number => both.gpus.reduce((bytes, gpu) => bytes + gpu[key], 0);
    assert.deepEqual([sum("weights"), sum("cache")], [whole.weights, whole.cache]);
    assert.equal((both.gpus[0]?.cache ?? 0) * 2, both.gpus[1]?.cache);
    assert.ok((both.gpus[1]?.weights ?? 0) > (both.gpus[0]?.weights ?? 0) + outputBytes);
  });
});

describe("the work of a load", () => {
  it("has a buffer for the outputs of a whole batch where every token has an output, else of the last tokens", async () => {
    const whole = 262_144 * 4;
    assert.equal((await need(shapes.largeVocabulary, "-c 4096 -np 4")).host.output, 4 * whole);
    assert.ok((await onGpu(shapes.largeVocabulary, "-c 4096")).compute < 40 * mebibyte);
    assert.ok((await onGpu(shapes.largeVocabulary, "-c 4096 --embedding")).compute > 512 * whole);
  });

  it("counts the experts in use, and the copy from which a GPU reads a quantised cache", async () => {
    assert.ok((await onGpu(shapes.mixtureOfExperts, "-c 4096")).compute < 32 * mebibyte);
    const q8 = await onGpu(shapes.qwen3, "-c 65536 -ctk q8_0 -ctv q8_0");
    assert.ok(q8.compute > 65_536 * 2 * 1024 * 2 && q8.compute > (await onGpu(shapes.qwen3, "-c 65536")).compute);
  });
});

it("a projector is added to the figures of the engine's allocator, which loads none", async () => {
  const shape = await shapeFrom(shapes.dense, { words: 8 });
  const settings = settingsOf(["-c", "4096"], {}, { contextLength: 4096, gpus: [cuda], projectorBytes: 7_000_000 });
  const [gpu] = engineEstimate("CUDA0 172 48 65\nHost 33 0 18\n", shape, settings)?.gpus ?? [];
  assert.equal(gpu?.weights, 172.5 * mebibyte + 7_000_000);
});

it("mapped memory, which may be dropped, is separate from other memory", async () => {
  const { host, mappedBytes, unusedMappedBytes } = await need(shapes.repacked, "-c 4096");
  assert.ok(mappedBytes > 0 && unusedMappedBytes > 0 && host.weights > mappedBytes);
  const plain = await need(shapes.dense, "-c 4096");
  assert.deepEqual([plain.mappedBytes, plain.unusedMappedBytes], [plain.host.weights, 0]);
  assert.equal(sumOf(plain.host), plain.host.weights + plain.host.cache + plain.host.compute + plain.host.output);
});

it("the parts of a model in several files are added up", async () => {
  const headers = [0, 1, 2].map((index) => headerSource(shapes.dense, { words: 8, split: { index, count: 3 } }));
  const { files, ...parts } = shapeOf(await Promise.all(headers.map((each) => readGgufHeader(each))));
  const { files: whole, ...rest } = await shapeFrom(shapes.dense, { words: 8 });
  assert.deepEqual(parts, rest);
  assert.ok(Math.abs(files.mappedBytes - whole.mappedBytes) < 1024);
});

const architecture = { "general.architecture": { text: "x" } };
const keys = { "x.block_count": { u32: 1 }, "x.embedding_length": { u32: 8 } };
for (const [sketch, message] of [
  [{}, /./],
  [{ metadata: architecture }, /^the file lacks the keys of x$/],
  [
    { metadata: { ...architecture, ...keys }, tensors: [{ shape: [8], type: 99 }] },
    /^the type of tensor\.0 is not known to this version$/,
  ],
] as const satisfies readonly (readonly [Parameters<typeof ggufBytes>[0], RegExp])[])
  it(`a model of unknown shape is refused: ${message.source}`, async () => {
    const bytes = ggufBytes(sketch);
    const readRange = async (start: number, length: number): Promise<Buffer> => bytes.subarray(start, start + length);
    const header = await readGgufHeader({ sizeBytes: bytes.length, windowBytes: 1024, readRange });
    assert.throws(() => shapeOf([header]), { name: "UnknownShape", message });
  });

it("a header that is read by ranges is asked for in windows, and nothing of the weights is", async () => {
  const { header, sizeBytes } = headerOf(shapes.dense);
  const windowBytes = 128 * 1024;
  let last = 0;
  const readRange = async (start: number, length: number): Promise<Buffer> => {
    last = Math.max(last, start + length);
    return header.subarray(start, start + length);
  };
  const found = await readGgufHeader({ sizeBytes, windowBytes, readRange });
  assert.equal(found.wholeBytes, sizeBytes);
  assert.ok(last <= header.length + windowBytes, `read to ${last} of a header of ${header.length}`);
  assert.deepEqual(shapeOf([found]), await shapeFrom(shapes.dense));
});
