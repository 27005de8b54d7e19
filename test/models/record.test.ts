import assert from "node:assert/strict";
import { rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { catalogEntrySchema } from "../../src/api/catalog.ts";
import { modelRecordSchema, modelSpecSchema, type ModelRecord } from "../../src/api/model.ts";
import { FactCache } from "../../src/models/facts.ts";
import { licensesReader } from "../../src/models/licenses.ts";
import { projectorsAmong } from "../../src/models/model-files.ts";
import { declaredRecord, fileRecord } from "../../src/models/record.ts";
import { ggufBytes } from "../support/gguf.ts";
import { tempDir } from "../support/temp-dir.ts";

const since = new Date("2026-01-02T03:04:05.000Z");

type Beside = Parameters<typeof declaredRecord>[3];

/** As it is published. */
async function declared(
  name: string,
  spec: object,
  { files = [], beside }: { readonly files?: readonly string[]; readonly beside?: Beside } = {},
): Promise<ModelRecord> {
  const model = { name, spec: modelSpecSchema.parse(spec), since };
  const record = await declaredRecord(new FactCache(), model, projectorsAmong(files), beside);
  return modelRecordSchema.parse(record);
}

async function found(ref: string, paths: readonly string[], shardCount = 1, projector?: string): Promise<ModelRecord> {
  return modelRecordSchema.parse(await fileRecord(new FactCache(), { ref, paths, shardCount }, projector));
}

const stateOf = ({ state, reason, message }: ModelRecord): unknown => [state, reason, message];

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
  const recordOf = async (spec: object, licenses = licensesReader(async () => catalog)): Promise<ModelRecord> =>
    await declared("x", spec, { beside: { licenses } });

  it("is not fetched before, under whatever ref and in whatever revision", async () => {
    for (const source of ["hf://o/r/f.gguf", "hf://O/r/f.gguf@v2"]) {
      const { state, reason, message = "" } = await recordOf({ source });
      assert.deepEqual([state, reason], ["missing", "LicenseNotAccepted"]);
      assert.match(message, /^the licence of X must be accepted first: Terms, https:\/\/x\.test\/terms; then/);
    }
  });

  it("is fetched once its manifest accepts the licence, which covers no other file of the repository", async () => {
    for (const spec of [{ source: "hf://o/r/f.gguf", acceptLicense: true }, { source: "hf://o/r/g.gguf" }])
      assert.equal((await recordOf(spec)).reason, "NotFetched");
  });

  it("is not fetched, whatever its licence, while the catalogue cannot be read; the next record reads it again", async () => {
    for (const [source, next] of [
      ["hf://o/r/f.gguf", "LicenseNotAccepted"],
      ["hf://o/r/g.gguf", "NotFetched"],
    ] as const) {
      let reads = 0;
      const reader = licensesReader(async () => {
        reads += 1;
        if (reads === 1) throw new Error("EMFILE: too many open files");
        return catalog;
      });
      const { state, reason, message = "" } = await recordOf({ source }, reader);
      assert.deepEqual([state, reason], ["missing", "LicenseNotAccepted"]);
      assert.match(message, /^nothing is fetched for now: .* cannot be read \(EMFILE: too many open files\)/);
      assert.match(message, /; then run `berth model pull x --accept-license`, or set acceptLicense/);
      for (let again = 0; again < 2; again += 1) assert.equal((await recordOf({ source }, reader)).reason, next);
      assert.equal(reads, 2);
    }
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
    for (const [architecture, pooling, capabilities, projector] of [
      ["qwen3", undefined, "chat"],
      ["qwen3", 0, "chat"],
      ["qwen3", 3, "embed"],
      ["qwen3", 4, "rerank"],
      ["bert", undefined, "embed"],
      ["nomic-bert-moe", undefined, "embed"],
      ["gemma3", undefined, "chat,vision", "/m/mmproj.gguf"],
    ] as const) {
      const type = pooling === undefined ? {} : { [`${architecture}.pooling_type`]: { u32: pooling } };
      await writeFile(path, ggufBytes({ metadata: { "general.architecture": { text: architecture }, ...type } }));
      assert.equal((await found("m", [path], 1, projector)).capabilities.join(), capabilities);
    }
  });

  it("in parts is one model, once all of them are there, also by its header alone", async () => {
    await using directory = await tempDir();
    const paths = [1, 2, 3].map((part) => join(directory.path, `big-0000${part}-of-00003.gguf`));
    for (const path of paths) await writeTinyModel(path);
    const one = await found("one", paths.slice(0, 1));
    const { state, files, path, sizeBytes, parameters } = await found("big", paths, 3);
    assert.deepEqual(
      [state, files, path, sizeBytes, parameters],
      ["available", paths, paths[0], 3 * (one.sizeBytes ?? 0), 3 * (one.parameters ?? 0)],
    );
    const incomplete = (name: string | undefined, parts: number): unknown => [
      "invalid",
      "TruncatedModel",
      `${name} is one of ${parts} parts; 1 is there`,
    ];
    assert.deepEqual(stateOf(await found("big", paths.slice(1, 2), 3)), incomplete(paths[1], 3));
    const renamed = join(directory.path, "renamed.gguf");
    await writeFile(renamed, ggufBytes({ metadata: { "split.count": { u32: 2 } } }));
    assert.deepEqual(stateOf(await found("renamed", [renamed])), incomplete(renamed, 2));
  });

  it("is named with its problem", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "m.gguf");
    const missing = await found("m", [path]);
    assert.deepEqual([missing.state, missing.reason], ["missing", "ModelFileMissing"]);
    await writeFile(path, "<html>not found</html> and some more");
    const page = `${path} is no GGUF file: it does not begin with GGUF`;
    assert.deepEqual(stateOf(await found("m", [path])), ["invalid", "NotAModel", page]);
    await writeTinyModel(path);
    const { size } = await stat(path);
    await truncate(path, size - 1000);
    const cut = `${path} is incomplete: 1000 of ${size} bytes are missing`;
    assert.deepEqual(stateOf(await found("m", [path])), ["invalid", "TruncatedModel", cut]);
  });
});

describe("a declared model", () => {
  it("has the file's facts, except for fields of its manifest", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "tiny.gguf");
    await writeTinyModel(path);
    const own = {
      ref: "vendor/mine:free",
      capabilities: ["chat", "rerank"],
      contextLength: 512,
      license: "apache-2.0",
      engines: ["llama"],
    };
    assert.partialDeepStrictEqual(await declared("mine", { ...own, source: `file://${path}` }), {
      ...own,
      origin: "manifest",
      name: "mine",
      state: "available",
      quantization: "F32",
      created: since.getTime() / 1000,
    });
  });

  it("from a source that can be fetched is missing until it was fetched, with the files to fetch", async () => {
    for (const source of ["hf://owner/repo/m.gguf", "https://models.example/m.gguf"]) {
      const record = await declared("m", { source, sizeBytes: 5 });
      const how = "a slot that needs it has it fetched, and so has `berth model pull m`";
      assert.deepEqual(stateOf(record), ["missing", "NotFetched", `m is not on this machine yet: ${how}`]);
      assert.deepEqual(record.fetch, { files: [{ source }], sizeBytes: 5 });
    }
  });

  it("from a source that this version does not fetch, or that is none, says so", async () => {
    const remedy = "use a file:// source, or put the file into the models directory";
    for (const [source, why] of [
      ["flm://qwen3:4b", `cannot be fetched by this version: ${remedy}`],
      ["voice://af_heart", `cannot be fetched by this version: ${remedy}`],
      ["hf://owner/repo", "is no hf://owner/repo/file[@revision]"],
      ["file://relative.gguf", "is no file:///absolute/path"],
      ["file:///%2f/m.gguf", "is no file:///absolute/path"],
    ] as const) {
      const record = await declared("m", { source });
      assert.deepEqual(stateOf(record), ["unsupported", "UnsupportedSource", `${source} ${why}`]);
    }
  });

  it("of one fetched file has the SHA-256 that was computed for it", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "m.gguf");
    await writeTinyModel(path);
    const source = "hf://o/r/m.gguf";
    const files = [{ source, name: "m.gguf", sha256: "a".repeat(64), sizeBytes: 1 }];
    const fetched = { model: { schema: 1 as const, ref: "m", files, pulledAt: since.toISOString() }, paths: [path] };
    const { state, sha256 } = await declared("m", { source }, { beside: { fetched } });
    assert.deepEqual([state, sha256], ["available", "a".repeat(64)]);
  });

  it("is incomplete where its size differs from its manifest's", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "tiny.gguf");
    await writeTinyModel(path);
    const { size } = await stat(path);
    const source = `file://${path}`;
    assert.equal((await declared("m", { source, sizeBytes: size })).state, "available");
    for (const [sizeBytes, reason] of [
      [size + 1, "TruncatedModel"],
      [size - 1, "NotAModel"],
    ] as const) {
      const message = `${path} has ${size} bytes, not the ${sizeBytes} that its manifest says`;
      assert.deepEqual(stateOf(await declared("m", { source, sizeBytes })), ["invalid", reason, message]);
    }
  });

  it("of several files is a single model with its projector, and the size of them all", async () => {
    await using directory = await tempDir();
    const path = (name: string): string => join(directory.path, name);
    const [first, second, projector] = [path("first.gguf"), path("second.gguf"), path("mmproj-m.gguf")];
    for (const each of [first, second]) await writeTinyModel(each);
    await writeFile(projector, ggufBytes());
    const of = async (paths: readonly string[], more: object = {}): Promise<ModelRecord> =>
      await declared("m", { files: paths.map((each) => ({ source: `file://${each}` })), ...more });
    const all = [first, projector, second];
    const sizeBytes = (await Promise.all(all.map(async (each) => (await stat(each)).size))).reduce((a, b) => a + b);
    for (const more of [{}, { sizeBytes }]) {
      const { state, files, projectorPath, capabilities, ...rest } = await of(all, more);
      assert.deepEqual([state, files, projectorPath], ["available", [first, second], projector]);
      assert.deepEqual([capabilities, rest.sizeBytes], [["chat", "vision"], sizeBytes]);
    }
    const short = await of(all, { sizeBytes: sizeBytes + 1 });
    assert.deepEqual([short.state, short.reason], ["invalid", "TruncatedModel"]);
    const only = await of([projector]);
    const none = `file://${projector} is a projector, not a model`;
    assert.deepEqual([only.reason, only.message], ["NotAModel", none]);
    const beside = await declared("m", { source: `file://${first}` }, { files: [first, projector] });
    assert.equal(beside.projectorPath, projector);
    await rm(projector);
    const gone = await of(all);
    assert.deepEqual([gone.state, gone.reason], ["missing", "ModelFileMissing"]);
  });

  it("has the SHA-256 that its manifest gives for each of its own files, and none for a fetched one", async () => {
    const [one, two] = ["1".repeat(64), "2".repeat(64)];
    const checksums = async (spec: object): Promise<unknown> => (await declared("a", spec)).checksums;
    const own = { source: "file:///m/a b.gguf", sha256: one };
    const fetched = { source: "hf://o/r/c.gguf", sha256: two };
    assert.deepEqual(await checksums(own), { "/m/a b.gguf": one });
    assert.deepEqual(await checksums({ files: [own, { source: "file:///m/b.gguf" }, fetched] }), {
      "/m/a b.gguf": one,
    });
    assert.equal(await checksums(fetched), undefined);
  });
});
