import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, copyFile, mkdir, opendir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { promisify } from "node:util";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { modelRecordSchema, type ModelRecord } from "../../src/api/model.ts";
import { ModelScan } from "../../src/models/scan.ts";
import { tempDir } from "../support/temp-dir.ts";

const { signal } = new AbortController();

async function site() {
  const directory = await tempDir();
  const root = join(directory.path, "models");
  await mkdir(root);
  const tiny = join(directory.path, "tiny.gguf");
  await writeTinyModel(tiny);
  const scan = new ModelScan(root);
  return {
    root,
    path: (name: string) => join(root, name),
    add: async (name: string) => {
      await mkdir(join(root, name, ".."), { recursive: true });
      await copyFile(tiny, join(root, name));
    },
    found: async (directories: readonly string[] = [], records: readonly ModelRecord[] = []) =>
      await scan.find(directories, records, signal),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

it("finds the models of a directory tree, and says which the registry has", async () => {
  await using at = await site();
  await at.add("a.gguf");
  await at.add("hub/models--x--y/snapshots/0123/deep.gguf");
  await at.add("hub/models--x--y/snapshots/0123/mmproj.gguf");
  await at.add("taken.gguf");
  await at.add("two words.gguf");
  await at.add(".hidden/b.gguf");
  await writeFile(at.path("cut.gguf"), "GGUF");
  const ggml = Buffer.alloc(64);
  ggml.writeUInt32LE(0x67676d6c);
  await writeFile(at.path("ggml-base.bin"), ggml);
  await writeFile(at.path("pytorch_model.bin"), Buffer.alloc(64));
  await writeFile(at.path("kokoro-v1.onnx"), "x");
  await writeFile(at.path("sd.safetensors"), "x");
  await symlink("..", at.path("hub/back"));
  // Nobody writes into it: opening it would wait for ever.
  await promisify(execFile)("mkfifo", [at.path("pipe.bin")]);
  const record = (ref: string, path: string): ModelRecord =>
    modelRecordSchema.parse({ ref, origin: "file", source: `file://${path}`, path, files: [path], state: "available" });
  const found = await at.found([], [record("a", at.path("a.gguf")), record("taken", "/other/taken.gguf")]);
  assert.deepEqual(
    found.map(({ ref, state, capabilities, projectorPath }) => [ref, state, capabilities.join(), projectorPath]),
    [
      ["a", "registered", "chat", undefined],
      ["cut", "invalid", "", undefined],
      ["deep", "new", "chat,vision", at.path("hub/models--x--y/snapshots/0123/mmproj.gguf")],
      ["taken", "taken", "chat", undefined],
      ["unnamed", "invalid", "chat", undefined],
      ["ggml-base", "new", "stt", undefined],
      ["kokoro-v1", "new", "tts", undefined],
      ["sd", "new", "", undefined],
    ],
  );
  assert.match(found[1]?.message ?? "", /cut\.gguf .*(ends|end|short|truncated|bytes)/i);
  assert.match(found[3]?.message ?? "", /the ref taken is that of \/other\/taken\.gguf/);
});

it("of two new files with one name the second cannot be declared", async () => {
  await using at = await site();
  await at.add("one/a.gguf");
  await at.add("two/a.gguf");
  const found = await at.found([]);
  assert.deepEqual(
    found.map(({ ref, state, message }) => [ref, state, message]),
    [
      ["a", "new", undefined],
      ["a", "taken", `the ref a is that of ${at.path("one/a.gguf")}`],
    ],
  );
});

it("opens only what was changed since the last scan", async (t) => {
  await using at = await site();
  await at.add("a.gguf");
  await at.add("b.gguf");
  assert.deepEqual(
    (await at.found()).map(({ state }) => state),
    ["new", "new"],
  );
  if (process.geteuid?.() === 0) return t.skip("root may open every file");
  await chmod(at.path("a.gguf"), 0);
  await writeFile(at.path("b.gguf"), "not any more");
  assert.deepEqual(
    (await at.found()).map(({ state }) => state),
    ["new", "invalid"],
  );
});

it("says that a directory with the name of a model file is none, unless a model is in it", async () => {
  await using at = await site();
  await mkdir(at.path("mounted.gguf"));
  await at.add("unpacked.gguf/unpacked.gguf");
  const found = await at.found([]);
  assert.deepEqual(
    found.map(({ ref, state, message }) => [ref, state, message]),
    [
      ["unpacked", "new", undefined],
      [
        "mounted",
        "invalid",
        `${at.path("mounted.gguf")} is a directory in which no model was found, and no model file`,
      ],
    ],
  );
});

it("names a directory that cannot be scanned", async () => {
  await using at = await site();
  await writeFile(at.path("file"), "x");
  await assert.rejects(at.found([at.path("nowhere")]), {
    message: `${at.path("nowhere")} cannot be scanned: it is not there`,
  });
  await assert.rejects(at.found([at.path("file")]), {
    message: `${at.path("file")} cannot be scanned: it is no directory`,
  });
});

it("does not follow the kernel's lists of processes to the files that these have open", async () => {
  await using at = await site();
  await using other = await site();
  await other.add("open.gguf");
  await using directory = await opendir(other.root);
  assert.equal(directory.path, other.root);
  await symlink(`/proc/${process.pid}`, at.path("process"));
  assert.deepEqual(await at.found(), []);
});
