import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
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

it("a digest that could not be written is written when it is learnt again", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "state", "engines.lock.yaml");
  const lock = await EngineLockFile.open(path);
  await assert.rejects(lock.record("a:1", digest), { code: "ENOENT" });
  await mkdir(join(dir.path, "state"));
  await lock.record("a:1", digest);
  assert.deepEqual((await EngineLockFile.open(path)).lock, { "a:1": digest });
});
