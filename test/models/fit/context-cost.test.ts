import assert from "node:assert/strict";
import { truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { cacheTypesOf, contextBytes, savedContextBytes, usualContext } from "../../../src/api/context-cost.ts";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import type { ModelRecord } from "../../../src/api/model.ts";
import { llama } from "../../../src/engines/llama.ts";
import { FactCache } from "../../../src/models/facts.ts";
import { contextCostOf } from "../../../src/models/fit/context-cost.ts";
import { fileRecord } from "../../../src/models/record.ts";
import { runningIn } from "../../doubles/runtime-kinds.ts";
import { input } from "../../engines/fixture.ts";
import { shapeFrom } from "../../support/shape-source.ts";
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

describe("the sizes of a model's context", () => {
  for (const [name, cost] of [
    ["dense", { keyWidth: 12 * 256, valueWidth: 12 * 256, stateWidth: 0 }],
    // The 6th and the 12th of 14 layers have no window.
    [
      "slidingWindow",
      {
        keyWidth: 2 * 512,
        valueWidth: 2 * 512,
        window: { tokens: 512, keyWidth: 12 * 512, valueWidth: 12 * 512 },
        stateWidth: 0,
      },
    ],
    ["perLayerHeads", { keyWidth: 56 * 64, valueWidth: 56 * 64, stateWidth: 0 }],
    // The values of all heads are computed from the keys that they share.
    ["latent", { keyWidth: 12 * (256 + 64), valueWidth: 0, stateWidth: 0 }],
    ["stateSpace", { keyWidth: 0, valueWidth: 0, stateWidth: 12 * (3 * (2048 + 2 * 128) + 128 * 2048) }],
  ] as const) {
    it(`are those of its layers: ${name}`, async () => {
      assert.deepEqual(contextCostOf(await shapeFrom(shapes[name], { words: 8 })), cost);
    });
  }

  it("count a window and a batch, and a state once for each sequence", () => {
    const cost = { keyWidth: 1, valueWidth: 1, window: { tokens: 512, keyWidth: 10, valueWidth: 10 }, stateWidth: 100 };
    const use = { ...usualContext, contextTokens: 32_768, places: 1 };
    assert.equal(contextBytes(cost, use), 32_768 * 4 + 1024 * 40 + 400);
    assert.equal(contextBytes(cost, { ...use, isWindowFull: true }), 32_768 * 44 + 400);
    assert.equal(contextBytes(cost, { ...use, places: 4 }), 32_768 * 4 + 4 * 1024 * 40 + 4 * 400);
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
  it("is derived from what its layers keep: windows, the shared part of latent attention, each layer's own heads", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "m.gguf");
    for (const [shape, gpuBytes] of [
      [gemma12b, 24 * gib],
      // 7.5 KiB a token, 240 MiB in all; 48 KiB a token if the heads were cached.
      [shapes.latent, 1.2 * gib],
      // 14 KiB a token, 448 MiB in all; 48 KiB if every head of a query had a cache.
      [shapes.perLayerHeads, 2 * gib],
    ] as const) {
      await writeHeader(path, shape);
      assert.equal(derived(await recordOf(path), gpuBytes), "32768");
    }
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
