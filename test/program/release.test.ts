import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { isRelease } from "../../src/program/release.ts";
import { tempDir } from "../support/temp-dir.ts";

it("a release has release.json beside package.json", async () => {
  await using directory = await tempDir();
  await writeFile(join(directory.path, "package.json"), "{}");
  assert.equal(isRelease(directory.path), false);
  await writeFile(join(directory.path, "release.json"), "{}");
  assert.equal(isRelease(directory.path), true);
});
