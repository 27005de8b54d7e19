import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { lastLine } from "../../../src/runtimes/process/exits.ts";
import { tempDir } from "../../support/temp-dir.ts";

it("of a Node program that threw, the last output is the exception", async () => {
  await using directory = await tempDir();
  const file = join(directory.path, "log");
  const report = (thrown: string): string =>
    `listening\nfile:///app/engine.ts:3\n    throw er;\n    ^\n\n${thrown}\n    at run (node:net:1:2) {\n  code: 'E'\n}\n\nNode.js v24.1.0\n`;
  await writeFile(file, report("TypeError [ERR_X]: Unknown option '--name'"));
  assert.equal(await lastLine(file, 0), "TypeError [ERR_X]: Unknown option '--name'");
  await writeFile(file, report("null"));
  assert.equal(await lastLine(file, 0), "Node.js v24.1.0");
});
