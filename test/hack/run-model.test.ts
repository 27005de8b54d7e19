import assert from "node:assert/strict";
import { lstat, mkdir, readFile, readlink, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { it } from "node:test";
import { givenModel, useModel } from "../../hack/run-model.ts";
import { Stop } from "../../hack/run-stop.ts";
import { rejectionOf } from "../support/rejection.ts";
import { tempDir } from "../support/temp-dir.ts";

it("MODEL replaces the link of an earlier run, and no file that somebody has put there", async () => {
  await using directory = await tempDir();
  const [models, slots] = [join(directory.path, "models"), join(directory.path, "config/slots")];
  for (const each of [models, slots]) await mkdir(each, { recursive: true });
  const manifest = join(slots, "primary.toml");
  await writeFile(manifest, '[model]\ndefault = "tiny"\n');
  for (const from of ["/one", "/other"]) {
    const changed = await useModel(`${from}/big.gguf`, directory.path);
    // The second time the manifest says so already.
    const line = from === "/one" ? `${manifest}: its model is now big, as MODEL says; the rest of it stays` : undefined;
    assert.equal(changed, line);
    assert.equal(await readlink(join(models, "big.gguf")), `${from}/big.gguf`);
  }
  assert.equal(await readFile(manifest, "utf8"), '[model]\ndefault = "big"\n');
  const own = join(models, "own.gguf");
  await writeFile(own, "the only copy");
  const other = join(directory.path, "own.gguf");
  await writeFile(other, "another copy ");
  const { message } = await rejectionOf(useModel(other, directory.path), Stop);
  assert.equal(message, `${own} is another file of that name; move it away, or give it as MODEL`);
  assert.equal(await readFile(own, "utf8"), "the only copy");
  await writeFile(other, "the only copy");
  await useModel(other, directory.path);
  assert.equal((await lstat(own)).isFile(), true, "an equal file stays as it is");
  await useModel(own, directory.path);
  assert.equal(await readFile(manifest, "utf8"), '[model]\ndefault = "own"\n');
});

for (const [given, model] of [
  ["/models/m.gguf", { path: "/models/m.gguf" }],
  ["file:///models/my%20m.gguf", { path: "/models/my m.gguf" }],
  ["m.gguf", { path: resolve("m.gguf") }],
  ["./m", { path: resolve("m") }],
  ["README.md", { path: resolve("README.md") }],
  ["qwen3-4b", { name: "qwen3-4b" }],
  ["owner/name", { name: "owner/name" }],
  ["hf.co/owner/name:Q4_K_M", { name: "hf.co/owner/name:Q4_K_M" }],
  ["hf://owner/name/m.gguf", { name: "hf://owner/name/m.gguf" }],
  ["https://models.example/m.gguf", { name: "https://models.example/m.gguf" }],
] as const)
  it(`MODEL=${given} is a ${"path" in model ? "file" : "name or an address"}`, async () =>
    assert.deepEqual(await givenModel(given), model));
