import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import {
  blockLine,
  doneLine,
  headLine,
  isSameContent,
  readJournal,
} from "../../../src/models/fetch/partial-journal.ts";
import { tempDir } from "../../support/temp-dir.ts";

it("a journal says what was written into it, also of a source with letters beyond ASCII", async () => {
  await using directory = await tempDir();
  const path = join(directory.path, "journal");
  const content = {
    source: "https://example.test/\u6a21\u578b.gguf",
    sizeBytes: 3_000_000,
    validator: '"1"',
    sha256: undefined,
  };
  const block = { of: "own", sum: 0xffff_ffff } as const;
  const digest = "0".repeat(64);
  await writeFile(path, headLine(content) + blockLine(2, block) + doneLine(digest));
  const found = await readJournal(path);
  assert.deepEqual(found, { content, blocks: new Map([[2, block]]), digest });
  assert.equal(isSameContent(found.content, content), true);
});
