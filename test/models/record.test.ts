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
    let reads = 0;
    const reader = licensesReader(async () => {
      reads += 1;
      if (reads === 1) throw new Error("EMFILE: too many open files");
      return catalog;
    });
    const spec = { source: "hf://o/r/g.gguf" };
    const { state, reason, message = "" } = await recordOf(spec, reader);
    assert.deepEqual([state, reason], ["missing", "LicenseNotAccepted"]);
    assert.match(message, /^nothing is fetched for now: .* cannot be read \(EMFILE: too many open files\)/);
    assert.match(message, /; then run `berth model pull x --accept-license`, or set acceptLicense/);
    for (let again = 0; again < 2; again += 1) assert.equal((await recordOf(spec, reader)).reason, "NotFetched");
    assert.equal(reads, 2);
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
  /** A directory with a model, which is called FILE in messages. */
  async function site() {
    const directory = await tempDir();
    const path = join(directory.path, "tiny.gguf");
    await writeTinyModel(path);
    const { size } = await stat(path);
    return {
      path,
      source: `file://${path}`,
      size,
      at: (name: string) => join(directory.path, name),
      [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
    };
  }

  it("has the file's facts, except for fields of its manifest", async () => {
    await using at = await site();
    const own = {
      ref: "vendor/mine:free",
      capabilities: ["chat", "rerank"],
      contextLength: 512,
      license: "apache-2.0",
      engines: ["llama"],
    };
    const facts = { origin: "manifest", name: "mine", state: "available", quantization: "F32" };
    const found = await declared("mine", { ...own, source: at.source });
    assert.partialDeepStrictEqual(found, { ...own, ...facts, created: since.getTime() / 1000 });
  });

  const how = "a slot that needs it has it fetched, and so has `berth model pull m`";
  const notFetched = ["missing", "NotFetched", `m is not on this machine yet: ${how}`];
  const remedy = "cannot be fetched by this version: use a file:// source, or put the file into the models directory";
  for (const [source, expected] of [
    ["hf://owner/repo/m.gguf", notFetched],
    ["https://models.example/m.gguf", notFetched],
    ["flm://qwen3:4b", remedy],
    ["voice://af_heart", remedy],
    ["hf://owner/repo", "is no hf://owner/repo/file[@revision]"],
    ["file://relative.gguf", "is no file:///absolute/path"],
    ["file:///%2f/m.gguf", "is no file:///absolute/path"],
  ] as const)
    it(`from ${source} is fetched first, or says why it cannot be`, async () => {
      const record = await declared("m", { source, sizeBytes: 5 });
      const isFetched = typeof expected !== "string";
      assert.deepEqual(
        stateOf(record),
        isFetched ? expected : ["unsupported", "UnsupportedSource", `${source} ${expected}`],
      );
      assert.deepEqual(record.fetch, isFetched ? { files: [{ source }], sizeBytes: 5 } : undefined);
    });

  it("of one fetched file has the SHA-256 that was computed for it", async () => {
    await using at = await site();
    const source = "hf://o/r/m.gguf";
    const files = [{ source, name: "m.gguf", sha256: "a".repeat(64), sizeBytes: 1 }];
    const pulled = { schema: 1 as const, ref: "m", files, pulledAt: since.toISOString() };
    const { state, sha256 } = await declared(
      "m",
      { source },
      { beside: { fetched: { model: pulled, paths: [at.path] } } },
    );
    assert.deepEqual([state, sha256], ["available", "a".repeat(64)]);
  });

  it("is incomplete where its size differs from its manifest's", async () => {
    await using at = await site();
    for (const [more, state, reason] of [
      [0, "available", undefined],
      [1, "invalid", "TruncatedModel"],
      [-1, "invalid", "NotAModel"],
    ] as const) {
      const sizeBytes = at.size + more;
      const why = `${at.path} has ${at.size} bytes, not the ${sizeBytes} that its manifest says`;
      const message = reason === undefined ? undefined : why;
      assert.deepEqual(stateOf(await declared("m", { source: at.source, sizeBytes })), [state, reason, message]);
    }
  });

  it("of several files is a single model with its projector, and the size of them all", async () => {
    await using at = await site();
    const [second, projector] = [at.at("second.gguf"), at.at("mmproj-m.gguf")];
    await writeTinyModel(second);
    await writeFile(projector, ggufBytes());
    const of = async (paths: readonly string[], more: object = {}): Promise<ModelRecord> =>
      await declared("m", { files: paths.map((each) => ({ source: `file://${each}` })), ...more });
    const all = [at.path, projector, second];
    const sizeBytes = 2 * at.size + (await stat(projector)).size;
    for (const more of [{}, { sizeBytes }]) {
      const { state, files, projectorPath, capabilities, ...rest } = await of(all, more);
      assert.deepEqual([state, files, projectorPath], ["available", [at.path, second], projector]);
      assert.deepEqual([capabilities, rest.sizeBytes], [["chat", "vision"], sizeBytes]);
    }
    assert.equal((await of(all, { sizeBytes: sizeBytes + 1 })).reason, "TruncatedModel");
    const none = `file://${projector} is a projector, not a model`;
    assert.deepEqual(stateOf(await of([projector])), ["invalid", "NotAModel", none]);
    const beside = await declared("m", { source: at.source }, { files: [at.path, projector] });
    assert.equal(beside.projectorPath, projector);
    await rm(projector);
    assert.equal((await of(all)).reason, "ModelFileMissing");
  });

  it("has the SHA-256 that its manifest gives for each of its own files, and none for a fetched one", async () => {
    const own = { source: "file:///m/a b.gguf", sha256: "1".repeat(64) };
    const fetched = { source: "hf://o/r/c.gguf", sha256: "2".repeat(64) };
    const found = { "/m/a b.gguf": own.sha256 };
    for (const [spec, checksums] of [
      [own, found],
      [{ files: [own, { source: "file:///m/b.gguf" }, fetched] }, found],
      [fetched, undefined],
    ] as const)
      assert.deepEqual((await declared("a", spec)).checksums, checksums);
  });
});
