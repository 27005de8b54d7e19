import assert from "node:assert/strict";
import { lstat, mkdir, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { EngineLockFile } from "../../../src/store/state/engine-images.ts";
import { tempDir } from "../../support/temp-dir.ts";

const digest = `sha256:${"0".repeat(64)}`;

it("digests that are learnt at the same time are all remembered", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "engines.lock.yaml");
  const lock = await EngineLockFile.open(path);
  const images = Array.from({ length: 20 }, (_, index) => `registry.test/engine:${index}`);
  await Promise.all(images.map((image) => lock.record(image, digest)));
  const again = await EngineLockFile.open(path);
  assert.deepEqual(Object.keys(again.lock).toSorted(), images.toSorted());
});

it("a lock that is a link into a repository stays one, and the repository gets the digests", async () => {
  await using dir = await tempDir();
  const [path, kept] = [join(dir.path, "engines.lock.yaml"), join(dir.path, "kept.yaml")];
  await writeFile(kept, "images: {}\n", { mode: 0o600 });
  await symlink("kept.yaml", path);
  await (await EngineLockFile.open(path)).record("a:1", digest);
  assert.equal((await lstat(path)).isSymbolicLink(), true);
  assert.deepEqual((await EngineLockFile.open(kept)).lock, { "a:1": digest });
  assert.equal((await stat(kept)).mode & 0o777, 0o600);
});

it("a digest that could not be written is written when it is learnt again", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "state", "engines.lock.yaml");
  const lock = await EngineLockFile.open(path);
  await assert.rejects(lock.record("a:1", digest), { code: "ENOENT" });
  await mkdir(join(dir.path, "state"));
  await lock.record("a:1", digest);
  assert.deepEqual((await EngineLockFile.open(path)).lock, { "a:1": digest });
});
