import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { ProcessRecord } from "../../../src/api/process-record.ts";
import { ProcessRecords } from "../../../src/runtimes/process/records.ts";

const record: ProcessRecord = {
  schema: 1,
  instance: "ours",
  slot: "primary",
  role: "main",
  ordinal: 0,
  hash: "hash-1",
  port: 8081,
  start: "start-1",
  bootId: "boot-1",
  pidNamespace: "pid:[1]",
  pid: 4711,
  startTime: "1",
  startedAt: "2026-01-01T00:00:00.000Z",
  logOffset: 0,
};

class State implements Disposable {
  readonly dir = mkdtempSync(join(tmpdir(), "berth-records-"));
  readonly processes = join(this.dir, "processes");

  [Symbol.dispose](): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

test("a removal is not overtaken by a write that was asked for before it", async () => {
  using state = new State();
  const book = await ProcessRecords.open(state.processes, "ours");
  for (let round = 0; round < 10; round++) {
    const put = book.put(record);
    await Promise.all([put, book.remove(record)]);
    assert.deepEqual(await readdir(state.processes), []);
  }
});

test("records are read as they were written", async () => {
  using state = new State();
  const book = await ProcessRecords.open(state.processes, "ours");
  await book.put(record);
  await book.put({ ...record, role: "rerank", pid: 4712 });
  const again = await ProcessRecords.open(state.processes, "ours");
  assert.deepEqual(again.get(record), record);
  assert.deepEqual(again.all().length, 2);
});

for (const [what, file, text] of [
  ["that is torn", "primary.main.json", JSON.stringify(record).slice(0, 40)],
  ["of another schema", "primary.main.json", JSON.stringify({ ...record, schema: 2 })],
  ["of another installation", "primary.main.json", JSON.stringify({ ...record, instance: "theirs" })],
  ["under another slot's name", "embed.main.json", JSON.stringify(record)],
] satisfies [string, string, string][]) {
  test(`a file ${what} is set aside, and nothing else`, async () => {
    using state = new State();
    await mkdir(state.processes);
    await writeFile(join(state.processes, file), text);
    await writeFile(join(state.processes, "primary.rerank.json"), JSON.stringify({ ...record, role: "rerank" }));
    const book = await ProcessRecords.open(state.processes, "ours");
    assert.deepEqual(
      book.all().map(({ role }) => role),
      ["rerank"],
    );
    assert.deepEqual(await readdir(state.processes), ["primary.rerank.json"]);
    assert.deepEqual(
      (await readdir(join(state.dir, "aside"))).map((name) => name.replace(/^\d+-/, "")),
      [`processes.${file}`],
    );
  });
}

test("a directory that is called like a record is set aside, also a second time", async () => {
  using state = new State();
  for (const round of [1, 2]) {
    await mkdir(join(state.processes, "p.json", "inner"), { recursive: true });
    const book = await ProcessRecords.open(state.processes, "ours");
    assert.deepEqual(book.all(), []);
    assert.deepEqual(await readdir(state.processes), []);
    assert.equal((await readdir(join(state.dir, "aside"))).length, round);
  }
});

test("a directory that cannot be read is an error, not an empty one", async () => {
  using state = new State();
  await writeFile(state.processes, "not a directory");
  await assert.rejects(ProcessRecords.open(state.processes, "ours"));
});

test("a record of a version without replicas is that of ordinal 0, and each replica has a record of its own", async () => {
  using state = new State();
  await mkdir(state.processes, { recursive: true });
  const { ordinal: _none, ...old } = record;
  await writeFile(join(state.processes, "primary.main.json"), JSON.stringify(old));
  const book = await ProcessRecords.open(state.processes, "ours");
  assert.deepEqual(book.get({ slot: "primary", role: "main", ordinal: 0 }), record);
  await book.put({ ...record, ordinal: 1, start: "start-2" });
  assert.deepEqual((await readdir(state.processes)).toSorted(), ["primary.main-1.json", "primary.main.json"]);
  const again = await ProcessRecords.open(state.processes, "ours");
  assert.deepEqual(
    again.all().map(({ ordinal, start }) => [ordinal, start]),
    [
      [1, "start-2"],
      [0, "start-1"],
    ],
  );
});
