import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { processName } from "../../../src/api/process-ref.ts";
import { ContextFiles } from "../../../src/store/state/context-files.ts";
import { tempDir } from "../../support/temp-dir.ts";

const main = { slot: "coder", role: "main", ordinal: 0 } as const;
const limits = { maxBytes: 1000, maxAgeSeconds: 3600 };

it("a saved context outlives a moment in which its record cannot be read", async () => {
  await using directory = await tempDir();
  const files = new ContextFiles(directory.path, "this boot", async () => undefined);
  await files.begin(main, { hash: "h", key: "k", ref: "m", isContainer: false });
  const contexts = join(directory.path, "contexts/coder", processName(main));
  await writeFile(join(contexts, "k-0.bin"), "context");
  const sealed = await files.seal(main, "k-0.bin", 7);
  assert.ok(sealed !== undefined);
  const place = { place: 0, file: "k-0.bin", tokens: 3, bytes: 7, ...sealed };
  const now = new Date();
  await files.put(main, { key: "k", ref: "m", savedAt: now.toISOString(), places: [place] }, limits, now);
  const record = `${contexts}.json`;
  await rename(record, join(directory.path, "kept"));
  // A loop of links cannot be read even by root.
  await symlink(record, record);
  await assert.rejects(files.trim(main, limits, now), { code: "ELOOP" });
  await rm(record);
  await rename(join(directory.path, "kept"), record);
  assert.ok(existsSync(join(contexts, "k-0.bin")));
  assert.deepEqual((await files.take(main, "k"))?.places, [place]);
});
