import assert from "node:assert/strict";
import fs from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { it } from "node:test";
import { rotatedFile, rotateLog } from "../../../src/runtimes/logs/log-rotation.ts";
import { tempDir } from "../../support/temp-dir.ts";

for (const [what, lines, kept] of [
  ["every byte is kept", 100, "a line\n".repeat(100)],
  // Of a log far past its limit only the newest part is kept.
  ["the newest part is kept", 1000, "a line\n".repeat(1000).slice(-500)],
] as const) {
  it(`${what} where a line comes while the copy is put in its place, and the disk takes parts of writes`, async ({
    mock,
  }) => {
    await using directory = await tempDir();
    const path = join(directory.path, "primary.main.log");
    await writeFile(path, "a line\n".repeat(lines));
    const { renameSync: rename, writeSync: write } = fs;
    mock.method(fs, "renameSync", (from: string, to: string) => {
      rename(from, to);
      fs.appendFileSync(path, "late\n");
    });
    mock.method(fs, "writeSync", (file: number, bytes: Buffer, at: number, length: number) =>
      write(file, bytes, at, Math.ceil(length / 2)),
    );
    syncBuiltinESMExports();
    try {
      await rotateLog(path, 500);
    } finally {
      mock.restoreAll();
      syncBuiltinESMExports();
    }
    assert.equal(await readFile(rotatedFile(path), "utf8"), `${kept}late\n`);
    assert.equal(await readFile(path, "utf8"), "");
  });
}
