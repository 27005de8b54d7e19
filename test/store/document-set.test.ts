import assert from "node:assert/strict";
import { copyFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { openSet } from "../../src/store/document-set.ts";
import { documentsInFiles } from "../../src/store/documents.ts";
import { sets } from "../../src/store/sets.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const time = "2026-01-01T00:00:00.000Z";
const loan = (group: string) => ({ schema: 1, group, until: time, requestedAt: time }) as const;

it("documents of any name are files of their directory, and are told of by that name", async () => {
  await using directory = await tempDir();
  await using writer = await openSet(documentsInFiles(directory.path), sets.loans);
  await using reader = await openSet(documentsInFiles(directory.path), sets.loans);
  const told: string[] = [];
  using _watch = reader.watch((names) => told.push(...names));
  const names = ["gpu", "my gpu: 50%", "../up", ".hidden", "a.b", "_5f", "großes"];
  for (const name of names) await writer.put(loan(name));
  await until("all are told of", () => names.every((name) => told.includes(name)));
  assert.deepEqual(new Set(told), new Set(names));
  for (const name of names) assert.deepEqual(reader.get(name), loan(name));
  const files = await readdir(join(directory.path, "loans"));
  assert.equal(files.length, names.length);
  for (const file of files) assert.match(file, /^[\w-][\w.-]*\.json$/);
  for (const name of names) await writer.remove(name);
  assert.deepEqual(await readdir(join(directory.path, "loans")), []);
});

it("a document under another's name is not read, and one that no reader would take is not written", async () => {
  await using directory = await tempDir();
  await using set = await openSet(documentsInFiles(directory.path), sets.loans);
  await set.put(loan("a"));
  await copyFile(join(directory.path, "loans/a.json"), join(directory.path, "loans/b.json"));
  await set.put(loan("c"));
  assert.deepEqual([set.get("b"), set.list().map(({ group }) => group)], [undefined, ["a", "c"]]);
  await assert.rejects(set.put({ ...loan("d"), until: "tomorrow" }), { name: "ZodError" });
  assert.equal(set.get("d"), undefined);
});
