import assert from "node:assert/strict";
import { rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { catalogEntrySchema } from "../../src/api/catalog.ts";
import { modelRecordSchema, modelSpecSchema, type ModelRecord } from "../../src/api/model.ts";
import { licensesReader } from "../../src/models/licenses.ts";
import { FactCache } from "../../src/models/facts.ts";
import { projectorsAmong } from "../../src/models/model-files.ts";
import { declaredRecord, fileRecord } from "../../src/models/record.ts";
import { ggufBytes } from "../support/gguf.ts";
import { tempDir } from "../support/temp-dir.ts";

const since = new Date("2026-01-02T03:04:05.000Z");

/** As it is published. */
async function declared(name: string, spec: object, files: readonly string[] = []): Promise<ModelRecord> {
  const model = { name, spec: modelSpecSchema.parse(spec), since };
  const record = await declaredRecord(new FactCache(), model, projectorsAmong(files));
  return modelRecordSchema.parse(record);
}

async function found(ref: string, paths: readonly string[], shardCount = 1, projector?: string): Promise<ModelRecord> {
  return modelRecordSchema.parse(await fileRecord(new FactCache(), { ref, paths, shardCount }, projector));
}

describe("a model with a licence that must be accepted", () => {
  const catalog = [
    catalogEntrySchema.parse({
      apiVersion: "berth.dev/v1alpha1",
      kind: "Model",
      metadata: { name: "y" },
      spec: {
        source: "hf://o/r/f.gguf",
        engines: ["llama"],
        capabilities: ["chat"],
        license: "Terms",
        licenseUrl: "https://x.test/terms",
      },
      catalog: { title: "X", engine: "llama", aboutBytes: 1, mustAccept: true, unverified: [] },
    }),
  ];
  const recordOf = async (spec: object, licenses = licensesReader(async () => catalog)): Promise<ModelRecord> => {
    const model = { name: "x", spec: modelSpecSchema.parse(spec), since };
    return await declaredRecord(new FactCache(), model, new Map(), { licenses });
  };

  it("is not fetched before, under whatever ref and in whatever revision", async () => {
    for (const source of ["hf://o/r/f.gguf", "hf://O/r/f.gguf@v2"]) {
      const record = await recordOf({ source });
      assert.deepEqual([record.state, record.reason], ["missing", "LicenseNotAccepted"]);
      assert.match(
        record.message ?? "",
        /^the licence of X must be accepted first: Terms, https:\/\/x\.test\/terms; then/,
      );
    }
  });

  it("is fetched once its manifest accepts the licence, which covers no other file of the repository", async () => {
    for (const spec of [{ source: "hf://o/r/f.gguf", acceptLicense: true }, { source: "hf://o/r/g.gguf" }])
      assert.equal((await recordOf(spec)).reason, "NotFetched");
  });

  it("is not fetched, whatever its licence, while the catalogue cannot be read; the next record reads it again", async () => {
    for (const source of ["hf://o/r/f.gguf", "hf://o/r/g.gguf"]) {
      let reads = 0;
      const reader = licensesReader(async () => {
        reads += 1;
        if (reads === 1) throw new Error("EMFILE: too many open files");
        return catalog;
      });
      const record = await recordOf({ source }, reader);
      assert.deepEqual([record.state, record.reason], ["missing", "LicenseNotAccepted"]);
      assert.match(
        record.message ?? "",
        /^nothing is fetched for now: .* cannot be read \(EMFILE: too many open files\)/,
      );
      assert.match(record.message ?? "", /; then run `berth model pull x --accept-license`, or set acceptLicense/);
      const isRestricted = source.endsWith("f.gguf");
      for (let again = 0; again < 2; again += 1)
        assert.equal((await recordOf({ source }, reader)).reason, isRestricted ? "LicenseNotAccepted" : "NotFetched");
      assert.equal(reads, 2);
    }
  });
});

it("a declared model of one fetched file has the SHA-256 that was computed for it", async () => {
  await using directory = await tempDir();
  const path = join(directory.path, "m.gguf");
  await writeTinyModel(path);
  const source = "hf://o/r/m.gguf";
  const files = [{ source, name: "m.gguf", sha256: "a".repeat(64), sizeBytes: 1 }];
  const fetched = { model: { schema: 1 as const, ref: "m", files, pulledAt: since.toISOString() }, paths: [path] };
  const model = { name: "m", spec: modelSpecSchema.parse({ source }), since };
  const record = await declaredRecord(new FactCache(), model, new Map(), { fetched });
  assert.deepEqual([record.state, record.sha256], ["available", "a".repeat(64)]);
});

describe("a declared model with a projector", () => {
  it("has the size of all its files, which is compared with the declared size", async () => {
    await using directory = await tempDir();
    const [model, projector] = ["m.gguf", "mmproj-m.gguf"].map((name) => join(directory.path, name));
    assert.ok(model !== undefined && projector !== undefined);
    await writeTinyModel(model);
    await writeFile(projector, ggufBytes());
    const size = (await stat(model)).size + (await stat(projector)).size;
    const files = [{ source: `file://${model}` }, { source: `file://${projector}` }];
    for (const more of [{}, { sizeBytes: size }]) {
      const { state, sizeBytes, projectorPath } = await declared("m", { files, ...more });
      assert.deepEqual([state, sizeBytes, projectorPath], ["available", size, projector]);
    }
    const short = await declared("m", { files, sizeBytes: size + 1 });
    assert.deepEqual([short.state, short.reason], ["invalid", "TruncatedModel"]);
    await rm(projector);
    const gone = await declared("m", { files });
    assert.deepEqual([gone.state, gone.reason], ["missing", "ModelFileMissing"]);
  });
});

describe("a file that was found", () => {
  it("is a model with the facts of its header", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "tiny.gguf");
    await writeTinyModel(path);
    const { size, mtimeMs } = await stat(path);
    const { parameters, ...record } = await found("tiny", [path]);
    assert.ok((parameters ?? 0) > 10_000);
    assert.deepEqual(record, {
      ref: "tiny",
      origin: "file",
      source: `file://${path}`,
      path,
      files: [path],
      sizeBytes: size,
      capabilities: ["chat"],
      architecture: "llama",
      family: "llama",
      contextLength: 2048,
      contextCost: { keyWidth: 128, valueWidth: 128, stateWidth: 0 },
      quantization: "F32",
      hasChatTemplate: true,
      created: Math.floor(mtimeMs / 1000),
      fingerprint: `${size}:${mtimeMs}`,
      state: "available",
    });
  });

  it("has the capabilities of its header", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "m.gguf");
    const of = async (architecture: string, pooling: number | undefined, projector?: string): Promise<string> => {
      const metadata = {
        "general.architecture": { text: architecture },
        ...(pooling === undefined ? {} : { [`${architecture}.pooling_type`]: { u32: pooling } }),
      };
      await writeFile(path, ggufBytes({ metadata }));
      return (await found("m", [path], 1, projector)).capabilities.join();
    };
    assert.equal(await of("qwen3", undefined), "chat");
    assert.equal(await of("qwen3", 0), "chat");
    assert.equal(await of("qwen3", 3), "embed");
    assert.equal(await of("qwen3", 4), "rerank");
    assert.equal(await of("bert", undefined), "embed");
    assert.equal(await of("nomic-bert-moe", undefined), "embed");
    assert.equal(await of("gemma3", undefined, "/m/mmproj.gguf"), "chat,vision");
  });

  it("in parts is one model, once all of them are there", async () => {
    await using directory = await tempDir();
    const paths = [1, 2, 3].map((part) => join(directory.path, `big-0000${part}-of-00003.gguf`));
    for (const path of paths) await writeTinyModel(path);
    const one = await found("one", paths.slice(0, 1));
    const whole = await found("big", paths, 3);
    assert.deepEqual(
      [whole.state, whole.files, whole.path, whole.sizeBytes, whole.parameters],
      ["available", paths, paths[0], 3 * (one.sizeBytes ?? 0), 3 * (one.parameters ?? 0)],
    );
    const part = await found("big", paths.slice(1, 2), 3);
    assert.deepEqual(
      [part.state, part.reason, part.message],
      ["invalid", "TruncatedModel", `${paths[1]} is one of 3 parts; 1 is there`],
    );
  });

  it("that is one of several parts by its header is incomplete, under any name", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "renamed.gguf");
    await writeFile(path, ggufBytes({ metadata: { "split.count": { u32: 2 } } }));
    const record = await found("renamed", [path]);
    assert.deepEqual([record.reason, record.message], ["TruncatedModel", `${path} is one of 2 parts; 1 is there`]);
  });

  it("is named with its problem", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "m.gguf");
    const missing = await found("m", [path]);
    assert.deepEqual([missing.state, missing.reason], ["missing", "ModelFileMissing"]);
    await writeFile(path, "<html>not found</html> and some more");
    const page = await found("m", [path]);
    assert.deepEqual(
      [page.state, page.reason, page.message],
      ["invalid", "NotAModel", `${path} is no GGUF file: it does not begin with GGUF`],
    );
    await writeTinyModel(path);
    const { size } = await stat(path);
    await truncate(path, size - 1000);
    const cut = await found("m", [path]);
    assert.deepEqual(
      [cut.state, cut.reason, cut.message],
      ["invalid", "TruncatedModel", `${path} is incomplete: 1000 of ${size} bytes are missing`],
    );
  });
});

describe("a declared model", () => {
  it("has the file's facts, except for fields of its manifest", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "tiny.gguf");
    await writeTinyModel(path);
    const record = await declared("mine", {
      ref: "vendor/mine:free",
      source: `file://${path}`,
      capabilities: ["chat", "rerank"],
      contextLength: 512,
      license: "apache-2.0",
      engines: ["llama"],
    });
    const { ref, origin, name, state, contextLength, capabilities, license, engines, quantization, created } = record;
    assert.deepEqual(
      { ref, origin, name, state, contextLength, capabilities, license, engines, quantization, created },
      {
        ref: "vendor/mine:free",
        origin: "manifest",
        name: "mine",
        state: "available",
        contextLength: 512,
        capabilities: ["chat", "rerank"],
        license: "apache-2.0",
        engines: ["llama"],
        quantization: "F32",
        created: since.getTime() / 1000,
      },
    );
  });

  it("from a source that can be fetched is missing until it was fetched, with the files to fetch", async () => {
    for (const source of ["hf://owner/repo/m.gguf", "https://models.example/m.gguf"]) {
      const { state, reason, message, fetch } = await declared("m", { source, sizeBytes: 5 });
      assert.deepEqual(
        { state, reason, message, fetch },
        {
          state: "missing",
          reason: "NotFetched",
          message: "m is not on this machine yet: a slot that needs it has it fetched, and so has `berth model pull m`",
          fetch: { files: [{ source }], sizeBytes: 5 },
        },
      );
    }
    const { reason, message } = await declared("m", { source: "hf://owner/repo" });
    assert.deepEqual([reason, message], ["UnsupportedSource", "hf://owner/repo is no hf://owner/repo/file[@revision]"]);
  });

  for (const source of ["flm://qwen3:4b", "voice://af_heart"]) {
    it(`from ${source.split(":", 1)[0]}:// says that this version does not fetch it, and what to do`, async () => {
      const { state, reason, message } = await declared("m", { source });
      assert.deepEqual(
        { state, reason, message },
        {
          state: "unsupported",
          reason: "UnsupportedSource",
          message: `${source} cannot be fetched by this version: use a file:// source, or put the file into the models directory`,
        },
      );
    });
  }

  it("from an invalid path is refused with the reason", async () => {
    for (const source of ["file://relative.gguf", "file:///%2f/m.gguf"]) {
      const { reason, message } = await declared("m", { source });
      assert.deepEqual([reason, message], ["UnsupportedSource", `${source} is no file:///absolute/path`]);
    }
  });

  it("is incomplete where its size differs from its manifest's", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "tiny.gguf");
    await writeTinyModel(path);
    const { size } = await stat(path);
    assert.equal((await declared("m", { source: `file://${path}`, sizeBytes: size })).state, "available");
    for (const [sizeBytes, reason] of [
      [size + 1, "TruncatedModel"],
      [size - 1, "NotAModel"],
    ] as const) {
      const record = await declared("m", { source: `file://${path}`, sizeBytes });
      assert.deepEqual(
        [record.state, record.reason, record.message],
        ["invalid", reason, `${path} has ${size} bytes, not the ${sizeBytes} that its manifest says`],
      );
    }
  });

  it("of several files is a single model, with its projector", async () => {
    await using directory = await tempDir();
    const path = (name: string): string => join(directory.path, name);
    for (const name of ["first.gguf", "second.gguf", "mmproj-m.gguf"]) await writeTinyModel(path(name));
    const files = (...names: readonly string[]): object => ({
      files: names.map((name) => ({ source: `file://${path(name)}` })),
    });
    const record = await declared("m", files("first.gguf", "mmproj-m.gguf", "second.gguf"));
    assert.deepEqual(
      [record.state, record.files, record.projectorPath, record.capabilities],
      ["available", [path("first.gguf"), path("second.gguf")], path("mmproj-m.gguf"), ["chat", "vision"]],
    );
    const only = await declared("m", files("mmproj-m.gguf"));
    assert.deepEqual(
      [only.reason, only.message],
      ["NotAModel", `file://${path("mmproj-m.gguf")} is a projector, not a model`],
    );
    const beside = await declared("m", { source: `file://${path("first.gguf")}` }, [
      path("first.gguf"),
      path("mmproj-m.gguf"),
    ]);
    assert.equal(beside.projectorPath, path("mmproj-m.gguf"));
  });
});

describe("a file of a manifest with its sha256", () => {
  it("is known with it, each of several too, and a fetched one is not", async () => {
    const [one, two] = ["1".repeat(64), "2".repeat(64)];
    assert.deepEqual((await declared("a", { source: "file:///m/a b.gguf", sha256: one })).checksums, {
      "/m/a b.gguf": one,
    });
    const files = [
      { source: "file:///m/a.gguf", sha256: one },
      { source: "file:///m/b.gguf" },
      { source: "hf://o/r/c.gguf", sha256: two },
    ];
    assert.deepEqual((await declared("a", { files })).checksums, { "/m/a.gguf": one });
    assert.equal((await declared("a", { source: "hf://o/r/c.gguf", sha256: two })).checksums, undefined);
  });
});
