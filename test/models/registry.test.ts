import assert from "node:assert/strict";
import { appendFile, copyFile, mkdir, readFile, rename, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { describe, it } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { modelRecordSchema, modelSpecSchema, type ModelRecord } from "../../src/api/model.ts";
import type { PulledModel } from "../../src/api/pulled-model.ts";
import { catalogSpecsReader } from "../../src/models/catalog-specs.ts";
import { filesOf } from "../../src/models/fetch/wanted-model.ts";
import { licensesReader } from "../../src/models/licenses.ts";
import {
  openRegistry,
  type DeclaredModel,
  type ModelRegistry,
  type RegistryOptions,
} from "../../src/models/registry.ts";
import { findCatalog } from "../../src/program/shipped-catalog.ts";
import { ggufBytes } from "../support/gguf.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

async function opened(sweepMs?: number, more: Pick<RegistryOptions, "licenses"> = {}) {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await tempDir());
  const root = join(directory.path, "state", "models");
  const sweep = sweepMs === undefined ? {} : { sweepMs };
  const registry = stack.use(await openRegistry({ modelsDir: root, ...sweep, ...more }));
  let hints = 0;
  stack.use(registry.watch(() => (hints += 1)));
  const owned = stack.move();
  return {
    registry,
    root,
    path: (name: string) => join(root, name),
    /** How often it has reported a change. */
    hints: () => hints,
    /** The path and state of each model that was found. */
    held: async (of: ModelRegistry = registry): Promise<unknown> =>
      (await of.records([])).map(({ path, state }) => [path, state]),
    /** `ref state`, or with what is wrong. */
    states: async (declared: readonly DeclaredModel[] = []): Promise<string[]> =>
      (await registry.records(declared)).map(({ ref, state, reason }) => `${ref} ${reason ?? state}`),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function model(name: string, spec: object): DeclaredModel {
  return { name, spec: modelSpecSchema.parse(spec), since: new Date(0) };
}

describe("the registry of models", () => {
  it("makes its directory, and registers a copied file as soon as it is whole", async () => {
    await using site = await opened();
    assert.deepEqual(await site.states(), []);
    const source = site.path("../tiny");
    await writeTinyModel(source);
    const bytes = await readFile(source);
    // As a copy comes: in parts.
    const path = site.path("tiny.gguf");
    await writeFile(path, bytes.subarray(0, 100_000));
    await until("the beginning is noticed", () => site.hints() > 0);
    assert.deepEqual(await site.states(), ["tiny TruncatedModel"]);
    const before = site.hints();
    await appendFile(path, bytes.subarray(100_000));
    await until("the rest is noticed", () => site.hints() > before);
    assert.deepEqual(await site.states(), ["tiny available"]);
    await rm(path);
    await until("its end is noticed", async () => (await site.states()).length === 0);
  });

  it("has the facts of the catalogue for a model that was fetched by its entry", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "model.safetensors");
    await writeFile(path, "weights");
    const entry = (await findCatalog()).find(({ metadata }) => metadata.name === "sdxl-turbo");
    assert.ok(entry !== undefined);
    const files = filesOf(entry.spec).map(({ source, sha256 = "0".repeat(64), as = "model.safetensors" }) => ({
      source,
      sha256,
      name: as,
      sizeBytes: 7,
    }));
    const pulledAt = new Date(0).toISOString();
    const recordOf = async (pulled: PulledModel): Promise<Partial<ModelRecord> | undefined> => {
      const fetched = {
        list: () => [pulled],
        pathsOf: () => [path],
        watch: () => ({ [Symbol.dispose]: () => undefined }),
      };
      const modelsDir = join(directory.path, "models");
      await using registry = await openRegistry({ modelsDir, fetched, catalog: catalogSpecsReader(findCatalog) });
      return (await registry.records([]))[0];
    };
    const known = await recordOf({ schema: 1, ref: "sdxl-turbo", files, pulledAt });
    const { minVramBytes, engines, capabilities, license } = entry.spec;
    assert.ok(minVramBytes !== undefined && license !== undefined);
    assert.deepEqual(
      [known?.minVramBytes, known?.engines, known?.capabilities, known?.license, known?.sizeBytes, known?.state],
      [minVramBytes, engines, capabilities, license, 7, "available"],
    );
    const others = files.map((file) => ({ ...file, source: "https://example.org/other.safetensors" }));
    const other = await recordOf({ schema: 1, ref: "sdxl-turbo", files: others, pulledAt });
    assert.deepEqual([other?.minVramBytes, other?.capabilities], [undefined, []], "other files under that name");
  });

  it("notifies no more once the watch or the registry is disposed of", async () => {
    await using site = await opened(20);
    let others = 0;
    site.registry.watch(() => (others += 1))[Symbol.dispose]();
    await writeTinyModel(site.path("a.gguf"));
    await until("who still watches hears", () => site.hints() > 0);
    assert.equal(others, 0);
    await site.registry[Symbol.asyncDispose]();
    const before = site.hints();
    await writeTinyModel(site.path("b.gguf"));
    assert.deepEqual(await site.states(), ["a available", "b available"], "asked, it still answers");
    assert.equal(site.hints(), before);
  });

  it("finds a change without an event by its sweep: a file elsewhere that a manifest names", async () => {
    await using site = await opened(20);
    const elsewhere = site.path("../elsewhere.gguf");
    const declared = [model("mine", { source: `file://${elsewhere}` })];
    assert.deepEqual(await site.states(declared), ["mine ModelFileMissing"]);
    await writeTinyModel(elsewhere);
    await until("the sweep sees it", () => site.hints() > 0);
    assert.deepEqual(await site.states(declared), ["mine available"]);
    const before = site.hints();
    await writeTinyModel(elsewhere, { name: "another" });
    await until("the sweep sees that it is another", () => site.hints() > before);
  });

  it("asks again by its sweep for the licences that could not be read", async () => {
    let isReadable = false;
    const licenses = licensesReader(async () => {
      if (!isReadable) throw new Error("EMFILE");
      return [];
    });
    await using site = await opened(20, { licenses });
    const declared = [model("mine", { source: "hf://owner/repo/mine.gguf" })];
    assert.deepEqual(await site.states(declared), ["mine LicenseNotAccepted"]);
    isReadable = true;
    await until("the sweep says so", () => site.hints() > 0);
    assert.deepEqual(await site.states(declared), ["mine NotFetched"]);
  });

  it("has one record per ref: a declared model takes precedence over a found one, and a file is one model only", async () => {
    await using site = await opened();
    await writeTinyModel(site.path("tiny.gguf"));
    await writeTinyModel(site.path("other.gguf"));
    await mkdir(site.path("vendor"));
    await writeTinyModel(site.path("vendor/tiny.gguf"));
    assert.deepEqual(await site.states(), ["other available", "tiny available"]);
    const [, first] = await site.registry.records([]);
    assert.equal(first?.path, site.path("tiny.gguf"), "of two files of one name the first by path");
    const declared = [
      model("mine", { source: `file://${site.path("other.gguf")}` }),
      model("tiny", { source: "hf://owner/repo/tiny.gguf" }),
      model("again", { ref: "mine", source: "file:///nowhere.gguf" }),
    ];
    assert.deepEqual(await site.states(declared), ["mine available", "tiny NotFetched"]);
  });

  it("leaves a name to the file in force, whatever copy of it or way to it comes, and across operators", async () => {
    await using site = await opened();
    const [first, copy] = [site.path("tiny.gguf"), site.path("aaa/tiny.gguf")];
    await writeTinyModel(first);
    assert.deepEqual(await site.held(), [[first, "available"]]);
    await mkdir(site.path("aaa"));
    await copyFile(first, copy);
    await symlink(".", site.path("loop"));
    assert.deepEqual(await site.held(), [[first, "available"]]);
    await rm(first);
    assert.deepEqual(await site.held(), [[copy, "available"]]);
    // It was chosen, and stays: also for the next operator.
    await copyFile(copy, first);
    assert.deepEqual(await site.held(), [[copy, "available"]]);
    const before = await site.registry.records([]);
    await using next = await openRegistry({ modelsDir: site.root, before });
    assert.deepEqual(await site.held(next), [[copy, "available"]]);
    await truncate(copy, 1000);
    assert.deepEqual(await site.held(next), [[first, "available"]]);
  });

  it("gives a name to a whole file first, then to the shortest path", async () => {
    await using site = await opened();
    await mkdir(site.path("a"), { recursive: true });
    await mkdir(site.path("longer"));
    await writeTinyModel(site.path("longer/m.gguf"));
    await writeFile(site.path("a/m.gguf"), "GGUF");
    assert.deepEqual(await site.held(), [[site.path("longer/m.gguf"), "available"]]);
    await using next = await openRegistry({ modelsDir: site.root });
    await copyFile(site.path("longer/m.gguf"), site.path("a/m.gguf"));
    assert.deepEqual(await site.held(next), [[site.path("a/m.gguf"), "available"]]);
  });

  it("offers by the header, and says why it does not offer a file", async () => {
    await using site = await opened();
    const put = async (name: string, type: string | undefined, architecture = "llama"): Promise<void> => {
      const path = join(site.root, name);
      await mkdir(dirname(path), { recursive: true });
      const told = type === undefined ? {} : { "general.type": { text: type } };
      await writeFile(path, ggufBytes({ metadata: { "general.architecture": { text: architecture }, ...told } }));
    };
    await put("vl/Model-B-Q4_K_M.gguf", "model");
    await put("vl/Model-B-vision.GGUF", undefined, "clip");
    await put("named/c.gguf", "model");
    await put("named/c-mmproj-F16.gguf", undefined);
    await put("upper/D.GGUF", "model");
    await put("mmproj-tuned/mmproj-tuned.gguf", "model");
    await put("lora.gguf", "adapter");
    await put("a.imatrix.gguf", "imatrix");
    await put("vocab.gguf", "vocab");
    await put("модель 1.gguf", "model");
    await put("loose-mmproj.gguf", "mmproj");
    const records = await site.registry.records([]);
    const told = records.map(({ ref, capabilities, projectorPath, message }) => [
      ref.replace(/^unnamed-.*/, "unnamed"),
      message?.replace(`${site.root}/`, "").replace(/[:,].*/, "") ?? [
        capabilities.join(),
        basename(projectorPath ?? ""),
      ],
    ]);
    assert.deepEqual(Object.fromEntries(told), {
      "Model-B-Q4_K_M": ["chat,vision", "Model-B-vision.GGUF"],
      c: ["chat,vision", "c-mmproj-F16.gguf"],
      D: ["chat", ""],
      "mmproj-tuned": ["chat", ""],
      lora: "lora.gguf is an adapter (LoRA) for another model",
      "a.imatrix": "a.imatrix.gguf is an importance matrix",
      vocab: "vocab.gguf is a vocabulary without weights",
      unnamed: '"модель 1" can be no name of a model',
      "loose-mmproj": "loose-mmproj.gguf is a projector for pictures",
    });
    for (const record of records) modelRecordSchema.parse(record);
  });

  it("lists names that no request could use, and keeps its models while the directory is missing", async () => {
    await using site = await opened();
    await writeTinyModel(site.path("tiny.gguf"));
    await writeTinyModel(site.path("a model with blanks.gguf"));
    await writeTinyModel(site.path("-dash.gguf"));
    const unnamed = (states: readonly string[]): string[] => states.map((state) => state.replace(/-\w{8} /, " "));
    const listed = (state: string): string[] => [`tiny ${state}`, ...[1, 2].map(() => "unnamed NotAModel")];
    assert.deepEqual(unnamed(await site.states()), listed("available"));
    await rename(site.root, `${site.root}-away`);
    assert.deepEqual(unnamed(await site.states()), listed("ModelFileMissing"), "known, and said to be missing");
    await rename(`${site.root}-away`, site.root);
    assert.deepEqual(unnamed(await site.states()), listed("available"));
  });
});
