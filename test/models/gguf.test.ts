import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { readGguf, type GgufFacts } from "../../src/models/gguf.ts";
import { HeaderFiles } from "../../src/models/header-files.ts";
import { GgufError } from "../../src/models/gguf-reader.ts";
import { ggufBytes, u32, u64, type GgufSketch } from "../support/gguf.ts";
import { tempDir } from "../support/temp-dir.ts";
import { fc } from "../support/fast-check.ts";

interface Refused {
  readonly reason: string;
  readonly message: string;
}

/** The facts, or why there are none. Anything else that is thrown fails the test. */
async function read(bytes: Buffer): Promise<GgufFacts | Refused> {
  await using directory = await tempDir();
  const path = join(directory.path, "model.gguf");
  await writeFile(path, bytes);
  try {
    return await readGguf(path);
  } catch (error) {
    assert.ok(error instanceof GgufError, `${String(error)}\n${error instanceof Error ? (error.stack ?? "") : ""}`);
    return { reason: error.reason, message: error.message };
  }
}

const llama = { "general.architecture": { text: "llama" } } as const;
const long = { raw: Buffer.concat([u32(9), u32(0), u64(4096n), Buffer.alloc(4096)]) };

/** Long lists under names that are used. */
function longLists(count: number): NonNullable<GgufSketch["metadata"]> {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`a${index}.block_count`, long]));
}

describe("the facts of a GGUF file", () => {
  it("cost no memory for layers that a damaged header makes up", async () => {
    for (const count of [{ u64: 2n ** 40n }, { u32: 2 ** 32 - 1 }]) {
      const metadata = { ...llama, "llama.block_count": count, "llama.embedding_length": { u32: 64 } };
      const facts = await read(ggufBytes({ metadata }));
      assert.ok("architecture" in facts, JSON.stringify(facts));
      assert.equal(facts.contextCost, undefined);
    }
  });

  it("name the quantization by the file's own field, else by the type of most weights", async () => {
    const tensors = [
      { shape: [256], type: 0 },
      { shape: [256, 2], type: 14, offset: 1024n },
    ];
    const quantization = async (metadata: GgufSketch["metadata"] = {}): Promise<unknown> => {
      const facts = await read(ggufBytes({ metadata: { ...llama, ...metadata }, tensors, dataBytes: 1024 + 420 }));
      return "quantization" in facts ? facts.quantization : facts;
    };
    assert.equal(await quantization({ "general.file_type": { u32: 15 } }), "Q4_K_M");
    assert.equal(await quantization(), "Q6_K");
    assert.equal(await quantization({ "general.file_type": { u32: 9999 } }), "Q6_K", "a type from the future");
  });

  it("tell a chat model from base weights, which have no chat template", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "model.gguf");
    await writeTinyModel(path, { chatTemplate: null });
    assert.equal((await readGguf(path)).hasChatTemplate, false);
    await writeTinyModel(path, { chatTemplate: "x".repeat(1_000_000) });
    assert.equal((await readGguf(path)).hasChatTemplate, true);
  });

  it("stand behind a vocabulary of any size, which is passed over", async () => {
    const texts = Array.from({ length: 60_000 }, (_, index) => `token ${index} ${"x".repeat(index % 50)}`);
    const facts = await read(
      ggufBytes({
        metadata: {
          ...llama,
          "tokenizer.ggml.tokens": { texts },
          "llama.context_length": { u32: 40_960 },
          "split.count": { u32: 3 },
          "general.name": { text: "Großes Modell" },
        },
      }),
    );
    assert.ok("name" in facts, JSON.stringify(facts));
    assert.deepEqual([facts.name, facts.contextLength, facts.splitCount], ["Großes Modell", 40_960, 3]);
  });

  it("are bounded for all files of a model together", async () => {
    await using directory = await tempDir();
    const paths = [1, 2, 3].map((part) => join(directory.path, `${part}.gguf`));
    for (const path of paths) await writeFile(path, ggufBytes({ metadata: longLists(30) }));
    const files = new HeaderFiles();
    assert.equal(await files.read(paths.slice(0, 2), (headers) => headers.length), 2);
    await assert.rejects(
      files.read(paths, (headers) => headers.length),
      /larger header than any model/,
    );
  });

  it("are numbers of any type", async () => {
    for (const [type, bytes] of [
      [0, [5]],
      [1, [5]],
      [2, [5, 0]],
      [3, [5, 0]],
      [4, [5, 0, 0, 0]],
      [5, [5, 0, 0, 0]],
      [6, [0, 0, 160, 64]],
      [10, [5, 0, 0, 0, 0, 0, 0, 0]],
      [11, [5, 0, 0, 0, 0, 0, 0, 0]],
      [12, [0, 0, 0, 0, 0, 0, 20, 64]],
    ] as const) {
      const raw = Buffer.concat([u32(type), Buffer.from(bytes)]);
      const facts = await read(ggufBytes({ metadata: { ...llama, "llama.context_length": { raw } } }));
      assert.ok("name" in facts, JSON.stringify(facts));
      assert.equal(facts.contextLength, 5, `type ${type}`);
    }
  });

  it("are not believed where they are absurd", async () => {
    const facts = await read(
      ggufBytes({
        metadata: {
          ...llama,
          "llama.context_length": { u64: 2n ** 60n },
          "llama.pooling_type": { u32: 77 },
          "split.count": { text: "three" },
          "general.name": { text: "" },
        },
      }),
    );
    assert.ok("name" in facts, JSON.stringify(facts));
    assert.deepEqual(
      [facts.contextLength, facts.pooling, facts.splitCount, facts.name],
      [undefined, undefined, 1, undefined],
    );
  });
});

describe("a file that is no model", () => {
  const many = u64(2n ** 62n);
  const value = (...bytes: readonly Buffer[]): Buffer => ggufBytes({ metadata: { a: { raw: Buffer.concat(bytes) } } });
  const tensor = (shape: readonly (number | bigint)[], more: object = {}): Buffer =>
    ggufBytes({ tensors: [{ shape: [...shape], type: 0, ...more }] });
  const one = { shape: [1], type: 0 };
  const tensors = Array.from({ length: 17_000 }, () => one);
  const alignment = { "general.alignment": { u32: 0 } };
  const refusals: readonly (readonly [message: RegExp, files: Readonly<Record<string, Buffer>>])[] = [
    [/^is no GGUF file: it is shorter than a header$/, { nothing: Buffer.alloc(0) }],
    [
      /does not begin with GGUF/,
      {
        "a web page": Buffer.from("<!doctype html><title>404 not found</title>"),
        "a pointer to Git's large file storage": Buffer.from("version https://git-lfs.github.com/spec/v1\n"),
      },
    ],
    [/big-endian/, { "another byte order": ggufBytes({ version: 3 * 2 ** 24 }) }],
    [/GGUF version 1; 2 and 3 are known/, { "version 1": ggufBytes({ version: 1 }) }],
    [/GGUF version 4/, { "a version to come": ggufBytes({ version: 4 }) }],
    [/a value of unknown type 99/, { "a value of no type": value(u32(99)) }],
    [/an array of unknown type 9/, { "a list of lists": value(u32(9), u32(9), u64(1n), Buffer.alloc(64)) }],
    [/ends within its header/, { "a list of texts without end": value(u32(9), u32(8), many) }],
    [
      /impossible header/,
      {
        "keys without end": ggufBytes({ keyCount: 2n ** 63n }),
        "tensors without end": ggufBytes({ tensorCount: 2n ** 40n }),
        "a text without end": value(u32(8), many),
        "a list without end": value(u32(9), u32(4), many),
        "a header of 200 MiB": value(u32(9), u32(0), u64(200n * 2n ** 20n), Buffer.alloc(8)),
        "a tensor of many dimensions": tensor([1, 1, 1, 1, 1, 1, 1, 1, 1]),
        "a tensor larger than anything": tensor([2n ** 40n, 2n ** 40n]),
        "a tensor far away": tensor([1], { offset: 2n ** 63n }),
        "data that begins nowhere": ggufBytes({ metadata: alignment }),
      },
    ],
    [
      /larger header than any/,
      {
        "lists under many names that are used": ggufBytes({ metadata: longLists(200) }),
        "more tensors than any model": ggufBytes({ tensors, dataBytes: 4 }),
      },
    ],
  ];
  for (const [message, files] of refusals)
    for (const [what, bytes] of Object.entries(files)) {
      it(`is refused: ${what}`, async () => {
        const found = await read(bytes);
        assert.ok("reason" in found, JSON.stringify(found));
        assert.equal(found.reason, what === "a list of texts without end" ? "TruncatedModel" : "NotAModel");
        assert.match(found.message, message);
      });
    }
});

describe("a file that is cut off", () => {
  it("says how much is missing of its weights, to the byte", async () => {
    for (const [type, shape, dataBytes] of [
      [0, [8, 4], 128],
      [1, [8, 4], 64],
      [2, [64], 36],
      [12, [256, 3], 432],
      [14, [256], 210],
    ] as const) {
      const whole = ggufBytes({ metadata: llama, tensors: [{ shape, type }], dataBytes });
      assert.ok("parameters" in (await read(whole)), `type ${type}, whole`);
      assert.deepEqual(await read(whole.subarray(0, -1)), {
        reason: "TruncatedModel",
        message: `is incomplete: 1 of ${whole.length} bytes are missing`,
      });
    }
    const aligned = { "general.alignment": { u32: 256 } } as const;
    const whole = ggufBytes({ metadata: aligned, tensors: [{ shape: [4], type: 0 }], dataBytes: 16, alignment: 256 });
    assert.ok("parameters" in (await read(whole)));
    assert.ok("reason" in (await read(whole.subarray(0, -1))));
  });

  it("is recognised as cut off at any length", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "model.gguf");
    await writeTinyModel(path);
    const whole = await readFile(path);
    // Many of the beginning, and some of the rest, which is one long list and one long row of weights.
    const lengths = [
      ...Array(80).keys(),
      ...Array.from({ length: 50 }, (_, nth) => 80 + nth * 11),
      ...Array.from({ length: 10 }, (_, part) => Math.floor((whole.length * part) / 10)),
    ];
    for (const length of [...lengths, whole.length - 1]) {
      const found = await read(whole.subarray(0, length));
      assert.ok("reason" in found, `${length} bytes pass for a model`);
      assert.equal(found.reason, length < 24 ? "NotAModel" : "TruncatedModel", `${length}: ${found.message}`);
    }
  });
});

it("for any changed bytes in a header, the answer is facts or a refusal", async () => {
  const whole = ggufBytes({
    metadata: {
      ...llama,
      "llama.context_length": { u32: 2048 },
      "general.alignment": { u32: 32 },
      "tokenizer.ggml.tokens": { texts: ["a", "b", "c"] },
      "general.name": { text: "model" },
    },
    tensors: [
      { shape: [8, 4], type: 0 },
      { shape: [256], type: 12, offset: 128n },
    ],
    dataBytes: 272,
  });
  assert.ok("parameters" in (await read(whole)));
  const change = fc.record({ at: fc.nat(whole.length - 1), byte: fc.constantFrom(0, 1, 2, 8, 9, 0x7f, 0x80, 0xff) });
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 6 }), async (changes) => {
      const bytes = Buffer.from(whole);
      for (const { at, byte } of changes) bytes[at] = byte;
      const found = await read(bytes);
      if ("reason" in found) assert.match(found.reason, /^(NotAModel|TruncatedModel)$/);
      else
        for (const value of Object.values(found)) assert.ok(typeof value !== "number" || Number.isSafeInteger(value));
    }),
  );
});
