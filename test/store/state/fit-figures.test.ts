import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { FitFigureFile } from "../../../src/store/state/fit-figures.ts";
import { tempDir } from "../../support/temp-dir.ts";

const onError = (error: unknown): void => assert.fail(String(error));

it("the figures of 256 combinations are kept, those used last, and are there after a restart", async () => {
  await using directory = await tempDir();
  const numbers = Array.from({ length: 256 }, (_, count) => count);
  const figures = numbers.map((count) => [`key-${count}`, { usedAt: new Date(count).toISOString() }] as const);
  const text = JSON.stringify({ schema: 1, figures: Object.fromEntries(figures) });
  await writeFile(join(directory.path, "fit.json"), text);
  const file = await FitFigureFile.open(directory.path, onError);
  file.put("key-256", {}, new Date(256));
  await file.settled();
  const next = await FitFigureFile.open(directory.path, onError);
  assert.deepEqual(
    ["key-0", "key-1", "key-256"].map((key) => next.get(key)?.usedAt),
    [undefined, new Date(1).toISOString(), new Date(256).toISOString()],
  );
});

it("figures that cannot be read or written are told, and known to this operator alone", async () => {
  await using directory = await tempDir();
  await mkdir(join(directory.path, "fit.json/inner"), { recursive: true });
  const errors: unknown[] = [];
  const file = await FitFigureFile.open(directory.path, (error) => errors.push(error));
  assert.equal(errors.length, 1);
  file.put("key", {}, new Date(0));
  await file.settled();
  assert.equal(errors.length, 2);
  assert.equal(file.get("key")?.usedAt, new Date(0).toISOString());
  await assert.rejects(readFile(join(directory.path, "fit.json")), { code: "EISDIR" });
});
