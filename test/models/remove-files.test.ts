import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { link, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { it } from "node:test";
import { modelRecordSchema, type ModelRecord } from "../../src/api/model.ts";
import { removeFiles } from "../../src/models/remove-files.ts";
import { tempDir } from "../support/temp-dir.ts";

function record(ref: string, files: readonly string[], origin: ModelRecord["origin"] = "file"): ModelRecord {
  return modelRecordSchema.parse({ ref, origin, source: `file://${files[0] ?? ""}`, files, state: "available" });
}

async function site(files: readonly string[]) {
  const directory = await tempDir();
  const modelsDir = join(directory.path, "models");
  for (const file of files) {
    await mkdir(dirname(join(modelsDir, file)), { recursive: true });
    await writeFile(join(modelsDir, file), "12345");
  }
  return {
    path: (name: string) => join(modelsDir, name),
    remove: async (names: readonly string[], records: readonly ModelRecord[] = [], isDryRun = false) =>
      await removeFiles({
        modelsDir,
        ref: "a",
        files: names.map((name) => join(modelsDir, name)),
        records,
        isDryRun,
      }),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

it("deletes a model's files, and says how many bytes are free", async () => {
  await using at = await site(["a.gguf", "sub/mmproj.gguf", "b.gguf"]);
  const names = ["a.gguf", "sub/mmproj.gguf", "gone.gguf"];
  assert.deepEqual(await at.remove(names, [], true), { freedBytes: 10, kept: [] });
  assert.equal(existsSync(at.path("a.gguf")), true, "a dry run deletes nothing");
  assert.deepEqual(await at.remove(names), { freedBytes: 10, kept: [] });
  assert.deepEqual(
    ["a.gguf", "sub/mmproj.gguf", "b.gguf"].map((name) => existsSync(at.path(name))),
    [false, false, true],
  );
  assert.deepEqual(await at.remove(names), { freedBytes: 0, kept: [] }, "the same again after a crash");
});

it("keeps a file that another model has, and counts shared content once", async () => {
  await using at = await site(["a.gguf", "mmproj.gguf"]);
  await link(at.path("a.gguf"), at.path("same.gguf"));
  const [a, projector] = [at.path("a.gguf"), at.path("mmproj.gguf")];
  const other = { ...record("b", [at.path("b.gguf")]), projectorPath: projector };
  const found = await at.remove(["a.gguf", "mmproj.gguf"], [record("a", [a]), other]);
  assert.deepEqual(found, { freedBytes: 0, kept: [{ path: projector, reason: "the model b has it, too" }] });
  const declared = await at.remove(["same.gguf"], [record("c", [at.path("same.gguf")], "manifest")]);
  assert.deepEqual(declared.kept, [{ path: at.path("same.gguf"), reason: "the model c has it, too" }]);
  // Without its manifest the same file is registered under its own name.
  assert.deepEqual(await at.remove(["same.gguf"], [record("same", [at.path("same.gguf")])]), {
    freedBytes: 5,
    kept: [],
  });
});

it("keeps a file to which a file of another model is a link, and deletes the link of its own", async () => {
  await using at = await site(["a.gguf", "sub/x"]);
  await symlink("../a.gguf", at.path("sub/b.gguf"));
  await symlink("sub", at.path("other"));
  const b = record("b", [at.path("other/b.gguf")]);
  const kept = [{ path: at.path("a.gguf"), reason: "the model b has it, too" }];
  assert.deepEqual(await at.remove(["a.gguf"], [b]), { freedBytes: 0, kept });
  assert.deepEqual((await at.remove(["sub/b.gguf"], [record("c", [at.path("a.gguf")])])).kept, []);
  assert.deepEqual([existsSync(at.path("sub/b.gguf")), existsSync(at.path("a.gguf"))], [false, true]);
});

it("deletes nothing outside the models directory, of the store, or that is no file", async () => {
  await using at = await site(["a.gguf", "folder/x", ".berth/blobs/sha256-1"]);
  await mkdir(at.path("../elsewhere"));
  await writeFile(at.path("../elsewhere/b.gguf"), "12345");
  await symlink("../elsewhere", at.path("linked"));
  await symlink("../elsewhere/b.gguf", at.path("b.gguf"));
  const found = await at.remove(["linked/b.gguf", "../elsewhere/b.gguf", ".berth/blobs/sha256-1", "folder", "b.gguf"]);
  const outside = `it lies outside the models directory ${at.path("")}`.replace(/\/$/, "");
  assert.deepEqual(
    found.kept.map(({ reason }) => reason),
    [
      `${outside}: delete it by hand`,
      `${outside}: delete it by hand`,
      "it belongs to the store of fetched files",
      "it is no file: delete it by hand",
    ],
  );
  assert.equal(existsSync(at.path("b.gguf")), false, "a link goes");
  assert.equal(await readFile(at.path("../elsewhere/b.gguf"), "utf8"), "12345", "its target stays");
});
