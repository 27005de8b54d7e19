import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { engineEstimate } from "../../../src/models/fit/engine-figures.ts";
import { estimate, sumOf, type DeviceNeed, type Estimate } from "../../../src/models/fit/estimate.ts";
import { settingsOf } from "../../../src/models/fit/flags.ts";
import { shapeOf, UnknownShape } from "../../../src/models/fit/shape.ts";
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

const tensorBytes = (shape: Shape, wanted: RegExp): number =>
  tensorsOf(shape).reduce((sum, tensor) => sum + (wanted.test(tensor.name) ? bytesOf(tensor) : 0), 0);

describe("the estimate by a model's header", () => {
  it("counts the heads of each layer where layers differ", async () => {
    const { host } = await need(shapes.perLayerHeads, "-c 4096");
    const heads = shapes.perLayerHeads.keyValueHeads.reduce<number>((sum, count) => sum + count, 0);
    assert.equal(host.cache, 4096 * heads * 64 * 2 * 2);
  });

  it("keeps no more of a layer with a sliding window than the window and a batch", async () => {
    const each = 4 * 128 * 2 * 2;
    // Every sixth of 14 layers sees everything.
    const expected = (cells: number, windowed: number): number => (2 * cells + 12 * windowed) * each;
    assert.equal((await need(shapes.slidingWindow, "-c 131072")).host.cache, expected(131_072, 1024));
    assert.equal((await need(shapes.slidingWindow, "-c 512")).host.cache, expected(512, 512), "a shorter context");
    assert.equal((await need(shapes.slidingWindow, "-c 8192 --swa-full")).host.cache, expected(8192, 8192));
    assert.equal((await need(shapes.slidingWindow, "-c 8192 -np 4")).host.cache, 4 * expected(2048, 1024));
    assert.equal((await need(shapes.slidingWindow, "-c 8192 -np 4 -kvu")).host.cache, expected(8192, 2560));
  });

  it("has a buffer for the outputs of a whole batch where every token has an output, else of the last tokens", async () => {
    const whole = 262_144 * 4;
    assert.equal((await need(shapes.largeVocabulary, "-c 4096 -np 4")).host.output, 4 * whole);
    const chat = await onGpu(shapes.largeVocabulary, "-c 4096");
    const embedding = await onGpu(shapes.largeVocabulary, "-c 4096 --embedding");
    assert.ok(chat.compute < 40 * mebibyte);
    assert.ok(embedding.compute > 512 * whole, `${embedding.compute}`);
  });

  it("counts the output layer among the layers on the GPU, where it is the first to be placed", async () => {
    const { dense } = shapes;
    const none = await onGpu(dense, "-c 4096 -ngl 0");
    const output = await onGpu(dense, "-c 4096 -ngl 1");
    const one = await onGpu(dense, "-c 4096 -ngl 2");
    const all = await onGpu(dense, "-c 4096 -ngl 13");
    const outputBytes = tensorBytes(dense, /^output/);
    const layerBytes = tensorBytes(dense, /^blk\.11\./);
    assert.deepEqual(
      [none.weights, output.weights, one.weights, all.weights],
      [0, outputBytes, outputBytes + layerBytes, outputBytes + tensorBytes(dense, /^blk/)],
    );
    assert.deepEqual((await need(dense, "-c 4096 -ngl 99", [cuda])).gpus[0], all, "more than there are");
    assert.equal(none.cache, 0);
    assert.equal(one.cache * 12, all.cache);
  });

  it("counts tied embeddings twice where one of them is on a GPU", async () => {
    const embedding = tensorBytes(shapes.tied, /^token_embd/);
    const { host, gpus } = await need(shapes.tied, "-c 4096", [cuda]);
    const rest = tensorBytes(shapes.tied, /^blk|^output_norm/);
    assert.deepEqual([host.weights, gpus[0]?.weights], [embedding, rest + embedding]);
    const alone = await need(shapes.tied, "-c 4096");
    assert.ok(Math.abs(alone.host.weights - rest - embedding) < mebibyte);
  });

  it("counts a quantised cache in blocks with their scales, and the copy that a GPU reads it from", async () => {
    const f16 = await onGpu(shapes.qwen3, "-c 65536");
    const q8 = await onGpu(shapes.qwen3, "-c 65536 -ctk q8_0 -ctv q8_0");
    const mixed = await onGpu(shapes.qwen3, "-c 65536 -ctk q4_0");
    assert.equal(q8.cache, (f16.cache / 2) * (34 / 32));
    assert.equal(mixed.cache, f16.cache / 2 + (f16.cache / 4) * (18 / 32));
    assert.ok(q8.compute > 65_536 * 2 * 1024 * 2 && q8.compute > f16.compute);
    assert.deepEqual(await onGpu(shapes.qwen3, "-c 65536 -ctk unheard-of"), f16);
  });

  it("adds a projector to the figures of the engine's allocator, which loads none", async () => {
    const shape = await shapeFrom(shapes.dense, { words: 8 });
    const settings = settingsOf(["-c", "4096"], {}, { contextLength: 4096, gpus: [cuda], projectorBytes: 7_000_000 });
    const [gpu] = engineEstimate("CUDA0 172 48 65\nHost 33 0 18\n", shape, settings)?.gpus ?? [];
    assert.equal(gpu?.weights, 172.5 * mebibyte + 7_000_000);
  });

  it("counts a projector where the first layers are worked on", async () => {
    const [with_, without] = [
      await need(shapes.dense, "-c 4096", [cuda], 5e8),
      await need(shapes.dense, "-c 4096", [cuda]),
    ];
    assert.deepEqual(with_.host, without.host);
    assert.equal((with_.gpus[0]?.weights ?? 0) - (without.gpus[0]?.weights ?? 0), 5e8);
    const cpu = await need(shapes.dense, "-c 4096", [], 5e8);
    assert.equal(cpu.host.weights - (await need(shapes.dense, "-c 4096")).host.weights, 5e8);
  });

  it("keeps the same of a recurrent layer for a context of any length, for each of several requests", async () => {
    const short = await need(shapes.stateSpace, "-c 1024");
    assert.equal((await need(shapes.stateSpace, "-c 131072")).host.cache, short.host.cache);
    assert.equal((await need(shapes.stateSpace, "-c 131072 -np 4")).host.cache, 4 * short.host.cache);
    const attention = 4 * 2 * 4 * 64 * 2;
    const hybrid = await need(shapes.hybrid, "-c 1024");
    assert.equal((await need(shapes.hybrid, "-c 2048")).host.cache - hybrid.host.cache, 1024 * attention);
  });

  it("keeps of latent attention what all heads share", async () => {
    const { host } = await need(shapes.latent, "-c 4096");
    assert.equal(host.cache, 4096 * 12 * (256 + 64) * 2);
  });

  it("takes every expert for a weight, and those in use for the work", async () => {
    const gpu = await onGpu(shapes.mixtureOfExperts, "-c 4096");
    assert.equal(gpu.weights, tensorBytes(shapes.mixtureOfExperts, /^blk|^output/));
    assert.ok(gpu.compute < 32 * mebibyte);
  });

  it("adds up the parts of a model in several files", async () => {
    const count = 3;
    const headers = await Promise.all(
      [0, 1, 2].map((index) => readGgufHeader(headerSource(shapes.dense, { words: 8, split: { index, count } }))),
    );
    const whole = await shapeFrom(shapes.dense, { words: 8 });
    const { files, ...parts } = shapeOf(headers);
    const { files: _, ...rest } = whole;
    assert.deepEqual(parts, rest);
    assert.ok(Math.abs(files.mappedBytes - whole.files.mappedBytes) < 1024);
  });

  it("gives each GPU its share of the layers, and the last one the output", async () => {
    const gpus = [cuda, { ...cuda, id: "CUDA1", share: 3 }];
    const both = await need(shapes.dense, "-c 4096", gpus);
    const whole = await onGpu(shapes.dense, "-c 4096");
    assert.deepEqual(
      both.gpus.map(({ id }) => id),
      ["CUDA0", "CUDA1"],
    );
    const sum = (key: "weights" | "cache"): number => both.gpus.reduce((bytes, gpu) => bytes + gpu[key], 0);
    assert.deepEqual([sum("weights"), sum("cache")], [whole.weights, whole.cache]);
    assert.equal((both.gpus[0]?.cache ?? 0) * 2, both.gpus[1]?.cache);
  });

  it("separates mapped memory, which may be dropped, from other memory", async () => {
    const { host, mappedBytes, unusedMappedBytes } = await need(shapes.repacked, "-c 4096");
    assert.ok(mappedBytes > 0 && unusedMappedBytes > 0 && host.weights > mappedBytes);
    const plain = await need(shapes.dense, "-c 4096");
    assert.deepEqual([plain.mappedBytes, plain.unusedMappedBytes], [plain.host.weights, 0]);
    assert.equal(sumOf(plain.host), plain.host.weights + plain.host.cache + plain.host.compute + plain.host.output);
  });

  it("refuses a model of unknown shape", async () => {
    const of = async (metadata: Parameters<typeof ggufBytes>[0]): Promise<unknown> => {
      const bytes = ggufBytes(metadata);
      const source = {
        sizeBytes: bytes.length,
        windowBytes: 1024,
        readRange: async (start: number, length: number) => bytes.subarray(start, start + length),
      };
      return shapeOf([await readGgufHeader(source)]);
    };
    await assert.rejects(of({}), UnknownShape);
    await assert.rejects(of({ metadata: { "general.architecture": { text: "llama" } } }), {
      message: "the file lacks the keys of llama",
    });
    const keys = { "x.block_count": { u32: 1 }, "x.embedding_length": { u32: 8 } };
    await assert.rejects(
      of({ metadata: { "general.architecture": { text: "x" }, ...keys }, tensors: [{ shape: [8], type: 99 }] }),
      { message: "the type of tensor.0 is not known to this version" },
    );
  });
});

describe("a header that is read by ranges", () => {
  it("is asked for in windows, and nothing of the weights", async () => {
    const { header, sizeBytes } = headerOf(shapes.dense);
    const asked: [number, number][] = [];
    const found = await readGgufHeader({
      sizeBytes,
      windowBytes: 128 * 1024,
      readRange: async (start, length) => {
        asked.push([start, length]);
        return header.subarray(start, start + length);
      },
    });
    assert.equal(found.wholeBytes, sizeBytes);
    assert.ok(asked.length <= Math.ceil(header.length / (128 * 1024)) + 2, `${asked.length} requests`);
    const last = Math.max(...asked.map(([start, length]) => start + length));
    assert.ok(last <= header.length + 128 * 1024, `read to ${last} of a header of ${header.length}`);
    assert.deepEqual(shapeOf([found]), await shapeFrom(shapes.dense));
  });
});
