import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import fs from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { it } from "node:test";
import { processName } from "../../../src/api/process-ref.ts";
import { ContextFiles } from "../../../src/store/state/context-files.ts";
import { tempDir } from "../../support/temp-dir.ts";

const main = { slot: "coder", role: "main", ordinal: 0 } as const;
const limits = { maxBytes: 1000, maxAgeSeconds: 3600 };

it("a saved context outlives a moment in which its record cannot be read", async (t) => {
  await using directory = await tempDir();
  const files = new ContextFiles(directory.path, "this boot", async () => undefined);
  await files.begin(main, { hash: "h", key: "k", ref: "m", isContainer: false });
  const file = join(directory.path, "contexts/coder", processName(main), "k-0.bin");
  await fs.writeFile(file, "context");
  const sealed = await files.seal(main, "k-0.bin", 7);
  assert.ok(sealed !== undefined);
  const place = { place: 0, file: "k-0.bin", tokens: 3, bytes: 7, ...sealed };
  const now = new Date();
  await files.put(main, { key: "k", ref: "m", savedAt: now.toISOString(), places: [place] }, limits, now);
  const failing = t.mock.method(fs, "readFile", async () => {
    throw Object.assign(new Error("too many open files"), { code: "EMFILE" });
  });
  syncBuiltinESMExports();
  try {
    await assert.rejects(files.trim(main, limits, now), { code: "EMFILE" });
  } finally {
    failing.mock.restore();
    syncBuiltinESMExports();
  }
  assert.ok(existsSync(file));
  assert.deepEqual((await files.take(main, "k"))?.places, [place]);
});
