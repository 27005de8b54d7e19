import assert from "node:assert/strict";
import { truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { cacheTypesOf, savedContextBytes, usualContext } from "../../../src/api/context-cost.ts";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import type { ModelRecord } from "../../../src/api/model.ts";
import { llama } from "../../../src/engines/llama.ts";
import { FactCache } from "../../../src/models/facts.ts";
import { fileRecord } from "../../../src/models/record.ts";
import { runningIn } from "../../doubles/runtime-kinds.ts";
import { input } from "../../engines/fixture.ts";
import { headerOf, type Shape } from "../../support/shaped-model.ts";
import { shapes } from "../../support/shapes.ts";
import { tempDir } from "../../support/temp-dir.ts";

const gib = 1024 ** 3;

/** Gemma 3 with 12 billion weights: of 48 layers 8 keep the whole context, the others 1024 tokens. */
const gemma12b: Shape = {
  ...shapes.slidingWindow,
  layers: 48,
  width: 3840,
  heads: 16,
  keyValueHeads: 8,
  headWidth: 256,
  feedForward: 15_360,
  vocabulary: 262_144,
  window: 1024,
  context: 131_072,
  quantization: "Q4_K_M",
};

/** The header, and weights that are holes. */
async function writeHeader(path: string, shape: Shape, options: Parameters<typeof headerOf>[1] = {}): Promise<void> {
  const { header, sizeBytes } = headerOf(shape, { words: 8, ...options });
  await writeFile(path, header);
  await truncate(path, sizeBytes);
}

async function recordOf(...paths: readonly string[]): Promise<ModelRecord> {
  const cache = new FactCache();
  return await fileRecord(cache, { ref: "m", paths, shardCount: paths.length }, undefined);
}

function derived(model: ModelRecord, gpuBytes: number, spec: SlotSpecInput = {}): string | undefined {
  const placement = { ...runningIn("process"), backend: "cuda", images: {}, lock: {} } as const;
  const given = input({ spec: { backend: "cuda", model: { default: "m" }, ...spec } });
  const host = { ...given.host, llamaServer: "/opt/llama-server" };
  const memory = { hostBytes: 64 * gib, gpuBytes };
  return llama.derived({ ...given, model, host, placement: { ...placement, memory } })["contextSize"]?.value;
}

describe("the bytes of a saved context", () => {
  it("count a window and a batch once what is saved is longer, and a state", () => {
    const cost = { keyWidth: 1, valueWidth: 1, window: { tokens: 512, keyWidth: 10, valueWidth: 10 }, stateWidth: 100 };
    assert.equal(savedContextBytes(cost, 20_000, usualContext), 20_000 * 4 + 1024 * 40 + 400);
    assert.equal(savedContextBytes(cost, 100, usualContext), 100 * 44 + 400);
  });

  it("follow the types of the cache that the manifest sets", () => {
    const types = cacheTypesOf(["-ctk", "q8_0"], { LLAMA_ARG_CACHE_TYPE_V: "q4_0" });
    assert.deepEqual(types, { keyType: "q8_0", valueType: "q4_0" });
    const cost = { keyWidth: 32, valueWidth: 32, stateWidth: 0 };
    assert.equal(savedContextBytes(cost, 10, types), 10 * (34 + 18));
  });
});

describe("the context of a slot without context_size", () => {
  it("is derived from what its layers keep: the windows of most", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "m.gguf");
    await writeHeader(path, gemma12b);
    assert.equal(derived(await recordOf(path), 24 * gib), "32768");
  });

  it("is longer with a smaller cache", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "m.gguf");
    await writeHeader(path, shapes.dense);
    const record = await recordOf(path);
    assert.equal(derived(record, gib), "16384");
    assert.equal(derived(record, gib, { args: ["-ctk", "q4_0", "-ctv", "q4_0"] }), "32768");
  });

  it("is derived from all files of a model in parts", async () => {
    await using directory = await tempDir();
    const paths = [1, 2].map((part) => join(directory.path, `m-0000${part}-of-00002.gguf`));
    for (const [index, path] of paths.entries()) await writeHeader(path, shapes.dense, { split: { index, count: 2 } });
    const record = await recordOf(...paths);
    assert.deepEqual(record.contextCost, { keyWidth: 12 * 256, valueWidth: 12 * 256, stateWidth: 0 });
  });
});
