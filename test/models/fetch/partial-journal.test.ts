import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import * as journal from "../../../src/models/fetch/partial-journal.ts";
import { tempDir } from "../../support/temp-dir.ts";

it("a journal says what was written into it, also of a source with letters beyond ASCII", async () => {
  await using directory = await tempDir();
  const path = join(directory.path, "journal");
  const source = "https://example.test/\u6a21\u578b.gguf";
  const content = { source, sizeBytes: 3_000_000, validator: '"1"', sha256: undefined };
  const block = { of: "own", sum: 0xffff_ffff } as const;
  const digest = "0".repeat(64);
  await writeFile(path, journal.headLine(content) + journal.blockLine(2, block) + journal.doneLine(digest));
  const found = await journal.readJournal(path);
  assert.deepEqual(found, { content, blocks: new Map([[2, block]]), digest });
  assert.equal(journal.isSameContent(found.content, content), true);
});
