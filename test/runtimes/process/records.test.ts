import assert from "node:assert/strict";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { ProcessRecord } from "../../../src/api/process-record.ts";
import { ProcessRecords } from "../../../src/runtimes/process/records.ts";
import { tempDir } from "../../support/temp-dir.ts";

const record: ProcessRecord = {
  schema: 1,
  instance: "ours",
  slot: "primary",
  role: "main",
  ordinal: 0,
  hash: "hash-1",
  port: 8081,
  start: "start-1",
  uid: 1000,
  bootId: "boot-1",
  pidNamespace: "pid:[1]",
  pid: 4711,
  startTime: "1",
  startedAt: "2026-01-01T00:00:00.000Z",
  logOffset: 0,
};

async function state(): Promise<AsyncDisposable & { readonly aside: string; readonly processes: string }> {
  const { path, [Symbol.asyncDispose]: dispose } = await tempDir();
  return { aside: join(path, "aside"), processes: join(path, "processes"), [Symbol.asyncDispose]: dispose };
}

test("a removal is not overtaken by a write that was asked for before it", async () => {
  await using at = await state();
  const book = await ProcessRecords.open(at.processes, "ours");
  for (let round = 0; round < 10; round++) {
    const put = book.put(record);
    await Promise.all([put, book.remove(record)]);
    assert.deepEqual(await readdir(at.processes), []);
  }
});

test("records are read as they were written, one for each role and replica", async () => {
  await using at = await state();
  const book = await ProcessRecords.open(at.processes, "ours");
  const all = [record, { ...record, ordinal: 1, start: "start-2" }, { ...record, role: "rerank" as const, pid: 4712 }];
  for (const each of all) await book.put(each);
  const files = ["primary.main-1.json", "primary.main.json", "primary.rerank.json"];
  assert.deepEqual((await readdir(at.processes)).toSorted(), files);
  const again = await ProcessRecords.open(at.processes, "ours");
  assert.deepEqual(
    all.map((each) => again.get(each)),
    all,
  );
  assert.equal(again.all().length, 3);
});

for (const [what, file, text] of [
  ["that is torn", "primary.main.json", JSON.stringify(record).slice(0, 40)],
  ["of another schema", "primary.main.json", JSON.stringify({ ...record, schema: 2 })],
  ["of another installation", "primary.main.json", JSON.stringify({ ...record, instance: "theirs" })],
  ["under another slot's name", "embed.main.json", JSON.stringify(record)],
] satisfies [string, string, string][]) {
  test(`a file ${what} is set aside, and nothing else`, async () => {
    await using at = await state();
    await mkdir(at.processes);
    await writeFile(join(at.processes, file), text);
    await writeFile(join(at.processes, "primary.rerank.json"), JSON.stringify({ ...record, role: "rerank" }));
    const book = await ProcessRecords.open(at.processes, "ours");
    assert.deepEqual([book.all().length, await readdir(at.processes)], [1, ["primary.rerank.json"]]);
    const [aside = "", ...more] = await readdir(at.aside);
    assert.deepEqual([aside.replace(/^\d+-/, ""), more], [`processes.${file}`, []]);
  });
}

test("a directory that is called like a record is set aside, also a second time", async () => {
  await using at = await state();
  for (const round of [1, 2]) {
    await mkdir(join(at.processes, "p.json", "inner"), { recursive: true });
    const book = await ProcessRecords.open(at.processes, "ours");
    assert.deepEqual([book.all(), await readdir(at.processes)], [[], []]);
    assert.equal((await readdir(at.aside)).length, round);
  }
});

test("a directory that cannot be read is an error, not an empty one", async () => {
  await using at = await state();
  await writeFile(at.processes, "not a directory");
  await assert.rejects(ProcessRecords.open(at.processes, "ours"));
});
