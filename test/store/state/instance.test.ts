import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { openInstance, restoreInstanceToStay } from "../../../src/store/state/instance.ts";
import { tempDir } from "../../support/temp-dir.ts";

describe("the name of an installation whose state directory is being deleted", () => {
  it("is written until it has stayed for eight checks, however often the deletion takes it", async () => {
    await using directory = await tempDir();
    const stateDir = join(directory.path, "state");
    const path = join(stateDir, "instance");
    const deletedAfter = new Set([1, 2, 6, 13]);
    let pauses = 0;
    await restoreInstanceToStay(stateDir, "the-name", async () => {
      pauses += 1;
      if (deletedAfter.has(pauses)) await rm(stateDir, { recursive: true });
    });
    assert.equal(await readFile(path, "utf8"), "the-name\n");
    // The check after pause 13 wrote the name for the last time, and eight more checks found it.
    assert.equal(pauses, 13 + 8);
  });

  it("does not replace the name that another operator has written", async () => {
    await using directory = await tempDir();
    const other = await openInstance(directory.path);
    await restoreInstanceToStay(directory.path, "the-name", async () => undefined);
    assert.equal(await openInstance(directory.path), other);
    assert.ok(existsSync(join(directory.path, "instance")));
  });
});
