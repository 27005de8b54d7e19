import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { readSmallText } from "../../src/lib/small-file.ts";
import { tempDir } from "../support/temp-dir.ts";

describe("reading a small file", { concurrency: true }, () => {
  it("gives its text up to the limit", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "file");
    await writeFile(path, "");
    assert.equal(await readSmallText(path, 1024), "");
    await writeFile(path, "ä".repeat(512));
    assert.equal(await readSmallText(path, 1024), "ä".repeat(512));
  });

  it("gives the text of a file that says that it is empty, as those of /proc do", async () => {
    assert.match(await readSmallText("/proc/self/status", 1024 ** 2), /^Name:\s+\S+\n/);
  });

  it("refuses a file that is larger, that reports size 0 and is larger, or that is not a plain file", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "file");
    await writeFile(path, "x".repeat(1025));
    const large = { name: "UnfitFile", message: "it is larger than 1 KiB, the limit of such a file" };
    await assert.rejects(readSmallText(path, 1024), large);
    await assert.rejects(readSmallText("/proc/self/smaps", 1024), large);
    const odd = { name: "UnfitFile", message: "it is no plain file" };
    for (const other of [dir.path, "/dev/zero"]) await assert.rejects(readSmallText(other, 1024), odd);
    await assert.rejects(readSmallText(join(dir.path, "none"), 1024), { code: "ENOENT" });
  });

  it("does not wait for the writer of a named pipe", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "pipe");
    await promisify(execFile)("mkfifo", [path]);
    await assert.rejects(readSmallText(path, 1024), { message: "it is no plain file" });
  });
});
