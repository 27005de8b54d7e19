import assert from "node:assert/strict";
import { mkdir, rename, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { describe, it } from "node:test";
import { isProjectorName, Listing, modelFiles, projectorsAmong } from "../../src/models/model-files.ts";
import { tempDir } from "../support/temp-dir.ts";

describe("files by model", () => {
  it("are a model each, and shards are one model together, in order", () => {
    assert.deepEqual(
      modelFiles([
        "/m/a.gguf",
        "/m/big-00001-of-00003.gguf",
        "/m/big-00002-of-00003.gguf",
        "/m/big-00003-of-00003.gguf",
        "/m/mmproj-a-f16.gguf",
        "/m/sub/big-00001-of-00003.gguf",
        "/m/sub/big-00001-of-00002.gguf",
        "/m/not-1-of-3.gguf",
      ]),
      [
        { ref: "a", paths: ["/m/a.gguf"], shardCount: 1 },
        {
          ref: "big",
          paths: ["/m/big-00001-of-00003.gguf", "/m/big-00002-of-00003.gguf", "/m/big-00003-of-00003.gguf"],
          shardCount: 3,
        },
        { ref: "big", paths: ["/m/sub/big-00001-of-00003.gguf"], shardCount: 3 },
        { ref: "big", paths: ["/m/sub/big-00001-of-00002.gguf"], shardCount: 2 },
        { ref: "not-1-of-3", paths: ["/m/not-1-of-3.gguf"], shardCount: 1 },
      ],
    );
  });

  it("include a projector with the model beside it, where it is clear which model that is", () => {
    assert.ok(["mmproj-x.gguf", "MMPROJ.gguf", "B-mmproj-F16.gguf", "b.mmproj.GGUF"].every(isProjectorName));
    assert.ok(!isProjectorName("/mmproj/a.gguf"));
    const projectorBeside = (path: string, files: readonly string[]) => projectorsAmong(files).get(dirname(path));
    const alone = ["/m/a/a.gguf", "/m/a/mmproj.gguf", "/m/b/b.gguf"];
    assert.equal(projectorBeside("/m/a/a.gguf", alone), "/m/a/mmproj.gguf");
    assert.equal(projectorBeside("/m/b/b.gguf", alone), undefined);
    assert.equal(projectorBeside("/m/a/a.gguf", [...alone, "/m/a/c.gguf"]), undefined, "of two models which?");
    assert.equal(projectorBeside("/m/a/a.gguf", [...alone, "/m/a/mmproj-2.gguf"]), undefined, "which of two?");
    const shards = ["/m/s/s-00001-of-00002.gguf", "/m/s/s-00002-of-00002.gguf", "/m/s/mmproj.gguf"];
    assert.equal(projectorBeside("/m/s/s-00001-of-00002.gguf", shards), "/m/s/mmproj.gguf");
  });
});

describe("the listing of a models directory", () => {
  async function listed(
    files: readonly string[],
  ): Promise<AsyncDisposable & { root: string; read(): Promise<string[]> }> {
    const directory = await tempDir();
    const root = join(directory.path, "models");
    await mkdir(root);
    for (const file of files) {
      await mkdir(dirname(join(root, file)), { recursive: true });
      await writeFile(join(root, file), "x");
    }
    const listing = new Listing(root);
    return {
      root,
      read: async () => (await listing.read()).map((path) => relative(root, path)),
      [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
    };
  }

  it("goes two levels deep, leaves out hidden files and other formats, and follows links", async () => {
    await using site = await listed([
      "b.gguf",
      "a.gguf",
      "readme.md",
      ".hidden.gguf",
      ".cache/c.gguf",
      "vendor/d.gguf",
      "vendor/name/e.gguf",
      "vendor/name/deep/f.gguf",
      "weights.bin",
    ]);
    await mkdir(join(site.root, "../blobs"));
    await writeFile(join(site.root, "../blobs/0123"), "x");
    await symlink("../blobs/0123", join(site.root, "linked.gguf"));
    await writeFile(join(site.root, "../blobs/g.gguf"), "x");
    await symlink("../blobs", join(site.root, "elsewhere"));
    await symlink("nowhere", join(site.root, "dangling"));
    await mkdir(join(site.root, "folder.gguf"));
    assert.deepEqual(await site.read(), [
      "a.gguf",
      "b.gguf",
      "elsewhere/g.gguf",
      "linked.gguf",
      "vendor/d.gguf",
      "vendor/name/e.gguf",
    ]);
  });

  it("keeps its files where the directory cannot be read, and forgets those of a removed subdirectory", async () => {
    await using site = await listed(["a.gguf", "vendor/b.gguf"]);
    assert.deepEqual(await site.read(), ["a.gguf", "vendor/b.gguf"]);
    await rename(join(site.root, "vendor"), join(site.root, "../vendor"));
    assert.deepEqual(await site.read(), ["a.gguf"]);
    await rename(site.root, `${site.root}-away`);
    for (let look = 0; look < 2; look++) assert.deepEqual(await site.read(), ["a.gguf"], "a failed read is no loss");
    await rename(`${site.root}-away`, site.root);
    assert.deepEqual(await site.read(), ["a.gguf"]);
  });
});
