import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { refuseOutsideLinks } from "../../../src/runtimes/kubernetes/model-links.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { llama } from "./manifests.ts";

it("a model behind a link out of the models directory is refused by name, and a link within the directory is allowed", async () => {
  await using base = await tempDir();
  const directory = join(base.path, "models");
  const elsewhere = join(base.path, "disk");
  await mkdir(join(directory, "blobs"), { recursive: true });
  await mkdir(elsewhere);
  for (const file of [join(directory, "blobs/a"), join(elsewhere, "b")]) await writeFile(file, "");
  await symlink("blobs/a", join(directory, "a.gguf"));
  await symlink(join(elsewhere, "b"), join(directory, "b.gguf"));
  const models = { directory, source: { path: directory } };
  const judge = (name: string, mounts = llama.mounts) =>
    refuseOutsideLinks({ ...llama, mounts, modelFiles: [join(directory, name)] }, models);
  await judge("a.gguf");
  await judge("not-there.gguf");
  await assert.rejects(
    judge("b.gguf"),
    /b\.gguf is a link to .*disk\/b, which Pods do not see: put the file itself into/,
  );
  await judge("b.gguf", [{ source: elsewhere, target: elsewhere, readOnly: true }]);
});
