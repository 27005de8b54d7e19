import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { errorMessage } from "../../src/lib/error-code.ts";
import { readText } from "../../src/lib/read-text.ts";
import { tempDir } from "../support/temp-dir.ts";

describe("readText", () => {
  it("reads a file, and distinguishes a missing file from an unreadable one", async () => {
    await using dir = await tempDir();
    const file = join(dir.path, "a");
    assert.equal(await readText(file), undefined);
    await writeFile(file, "é\n");
    assert.equal(await readText(file), "é\n");
    await assert.rejects(readText(dir.path), { code: "EISDIR" });
  });
});

describe("errorMessage", () => {
  it("finds a message in any thrown value", () => {
    assert.equal(errorMessage(new TypeError("too odd")), "too odd");
    assert.equal(errorMessage("too odd"), "too odd");
    assert.equal(errorMessage(undefined), "undefined");
  });
});
