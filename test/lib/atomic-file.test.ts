import assert from "node:assert/strict";
import { readdirSync, statSync } from "node:fs";
import { mkdir, open, readdir, readFile, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { removeLeftovers, rewriteFile, writeFileAtomic, writeJsonNow } from "../../src/lib/atomic-file.ts";
import { tempDir } from "../support/temp-dir.ts";

describe("writeFileAtomic", () => {
  for (const fsync of [false, true]) {
    it(`is never seen half, and leaves nothing beside it${fsync ? ", with fsync" : ""}`, async () => {
      await using dir = await tempDir();
      const path = join(dir.path, "file");
      const texts = ["a", "b"].map((letter) => letter.repeat(200_000));
      await writeFileAtomic(path, texts[0] ?? "", { fsync, mode: 0o600 });
      let isWriting = true;
      const seen = new Set<string>();
      const reading = (async () => {
        while (isWriting) seen.add(await readFile(path, "utf8"));
      })();
      await Promise.all(Array.from({ length: 20 }, (_, nth) => writeFileAtomic(path, texts[nth % 2] ?? "", { fsync })));
      isWriting = false;
      await reading;
      assert.ok([...seen].every((text) => texts.includes(text)));
      assert.deepEqual(await readdir(dir.path), ["file"]);
    });
  }

  it("gives the file the mode that was asked for", async () => {
    await using dir = await tempDir();
    await writeFileAtomic(join(dir.path, "secret"), "x", { fsync: false, mode: 0o600 });
    assert.equal((await stat(join(dir.path, "secret"))).mode & 0o777, 0o600);
  });

  it("shows the content of a closed file to nobody else, also while it is written", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "secret");
    await writeFile(path, "x", { mode: 0o600 });
    const modes = new Set<number>();
    const writing = rewriteFile(path, "y".repeat(5_000_000));
    const done = writing.then(() => true);
    while (!(await Promise.race([done, nextTurn(false)])))
      for (const name of readdirSync(dir.path)) {
        // The temporary file may get its name in between.
        const found = statSync(join(dir.path, name), { throwIfNoEntry: false });
        if (found !== undefined) modes.add(found.mode & 0o777);
      }
    assert.deepEqual([...modes], [0o600]);
    assert.equal((await stat(path)).size, 5_000_000);
  });

  it("leaves nothing behind when it cannot be", async () => {
    await using dir = await tempDir();
    await mkdir(join(dir.path, "file", "full"), { recursive: true });
    await assert.rejects(writeFileAtomic(join(dir.path, "file"), "x", { fsync: false }), { code: "EISDIR" });
    assert.deepEqual(await readdir(dir.path), ["file"]);
    await assert.rejects(writeFileAtomic(join(dir.path, "no", "file"), "x", { fsync: false }), { code: "ENOENT" });
  });
});

it("writeJsonNow replaces a file whole, and leaves nothing behind when it cannot", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "file");
  writeJsonNow(path, "a");
  const before = await open(path);
  writeJsonNow(path, "b");
  assert.equal(await readFile(path, "utf8"), "b");
  assert.equal(await before.readFile("utf8"), "a", "who reads the old one reads it to its end");
  await before.close();
  await mkdir(join(dir.path, "directory", "full"), { recursive: true });
  assert.throws(() => writeJsonNow(join(dir.path, "directory"), "x"), { code: "EISDIR" });
  assert.deepEqual((await readdir(dir.path)).toSorted(), ["directory", "file"]);
});

it("removeLeftovers removes old temporary files, and nothing else", async () => {
  await using dir = await tempDir();
  const long = new Date(Date.now() - 120_000);
  for (const [name, isOld] of [
    [".old.tmp", true],
    [".young.tmp", false],
    ["old.tmp", true],
    [".hidden", true],
  ] as const) {
    await writeFile(join(dir.path, name), "");
    if (isOld) await utimes(join(dir.path, name), long, long);
  }
  await removeLeftovers(dir.path);
  assert.deepEqual((await readdir(dir.path)).toSorted(), [".hidden", ".young.tmp", "old.tmp"]);
});
