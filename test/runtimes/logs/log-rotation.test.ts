import assert from "node:assert/strict";
import fs from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { it } from "node:test";
import { rotatedFile, rotateLog } from "../../../src/runtimes/logs/log-rotation.ts";
import { tempDir } from "../../support/temp-dir.ts";

// The operator looks at it every second, and once more before each start of its engine.
it("a log that is rotated twice at a time is kept", async () => {
  await using directory = await tempDir();
  const path = join(directory.path, "primary.main.log");
  const text = "a line\n".repeat(100_000);
  await writeFile(path, text);
  await Promise.all([rotateLog(path, 500_000), rotateLog(path, 500_000)]);
  assert.equal(await readFile(rotatedFile(path), "utf8"), text);
  assert.equal(await readFile(path, "utf8"), "");
});

it("no byte is left out where the disk takes only a part of a write", async ({ mock }) => {
  await using directory = await tempDir();
  const path = join(directory.path, "primary.main.log");
  await writeFile(path, "a line\n".repeat(100));
  const rename = fs.renameSync;
  mock.method(fs, "renameSync", (from: string, to: string) => {
    rename(from, to);
    fs.appendFileSync(path, "late\n");
  });
  const write = fs.writeSync;
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
  assert.equal(await readFile(rotatedFile(path), "utf8"), `${"a line\n".repeat(100)}late\n`);
});

it("a line that comes while the copy is put in its place is in the copy", async ({ mock }) => {
  await using directory = await tempDir();
  const path = join(directory.path, "primary.main.log");
  const text = "a line\n".repeat(1000);
  await writeFile(path, text);
  const rename = fs.renameSync;
  mock.method(fs, "renameSync", (from: string, to: string) => {
    rename(from, to);
    fs.appendFileSync(path, "late\n");
  });
  syncBuiltinESMExports();
  try {
    await rotateLog(path, 500);
  } finally {
    mock.restoreAll();
    syncBuiltinESMExports();
  }
  // Of a log far past its limit only the newest part is kept.
  assert.equal(await readFile(rotatedFile(path), "utf8"), `${text.slice(-500)}late\n`);
  assert.equal(await readFile(path, "utf8"), "");
});
