import assert from "node:assert/strict";
import { mkdir, readdir, rename, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { Demand, PublishedOperator } from "../../src/api/status.ts";
import { bootId } from "../../src/lib/boot-id.ts";
import { openDemandStore, openDemandWriter } from "../../src/store/state/demand.ts";
import { openPublished } from "../../src/store/state/published.ts";
import { openPublisher } from "../../src/store/state/publisher.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { published } from "./published-slot.ts";

// What every store promises is in store-conformance.ts; these are the files behind it.

const operator: PublishedOperator = {
  schema: 1,
  instance: "i",
  pid: 1,
  bootId: bootId(),
  startedAt: new Date(0).toISOString(),
  heartbeat: new Date(0).toISOString(),
  incarnation: "o",
  beat: 1,
  isPaused: false,
  isSettled: true,
  slotCount: 0,
  configDir: "/c",
  problems: [],
};

describe("published state", { concurrency: true }, () => {
  it("calls an operator settled once each slot that it published is read", async () => {
    await using dir = await tempDir();
    await using store = await openPublished(dir.path, { sweepMs: 3_600_000 });
    // Events of the slots are lost, as they may come late: the watcher is left behind with the old directory.
    await rename(join(dir.path, "slots"), join(dir.path, "old"));
    const publisher = await openPublisher(dir.path);
    await publisher.writeSlot(published("a"));
    const late: boolean[] = [];
    using _watch = store.watch(
      () => void (store.operator()?.isSettled === true && late.push(store.slot("a") === undefined)),
    );
    await publisher.writeOperator(operator);
    await until("the operator", () => late.length > 0);
    assert.deepEqual(late, [false]);
  });

  it("shows the last of many writes, by sweep alone when events are lost", async () => {
    await using dir = await tempDir();
    const publisher = await openPublisher(dir.path);
    await using store = await openPublished(dir.path, { sweepMs: 30 });
    for (let revision = 1; revision <= 50; revision++) await publisher.writeSlot(published("a", revision));
    await until("the last one", () => store.slot("a")?.revision === 50);
    // Another inode: the watcher is left behind with the old one.
    await rename(join(dir.path, "slots"), join(dir.path, "old"));
    await mkdir(join(dir.path, "slots"));
    await publisher.writeSlot(published("a", 51));
    await until("the sweep", () => store.slot("a")?.revision === 51);
  });

  it("keeps the last good value when a file is torn, and sets such files and directories aside on the writing side", async () => {
    await using dir = await tempDir();
    const publisher = await openPublisher(dir.path);
    for (const name of ["a", "b", "c"]) await publisher.writeSlot(published(name));
    await using store = await openPublished(dir.path, { sweepMs: 30 });
    const torn = {
      "a.json": '{"schema":1,"na',
      "b.json": JSON.stringify({ ...published("b"), schema: 2 }),
      "c.json": JSON.stringify(published("x")),
    };
    for (const [name, text] of Object.entries(torn)) await writeFile(join(dir.path, "slots", name), text);
    for (const name of ["slots/dir.json", "slots/.x.tmp", "demand/d.json", "requests/.y.tmp"]) {
      await mkdir(join(dir.path, name, "inner"), { recursive: true });
      await utimes(join(dir.path, name), 0, 0);
    }
    await writeFile(join(dir.path, "slots/.d.json.1.tmp"), "half");
    await publisher.writeSlot(published("e"));
    await until("the look that saw them", () => store.slot("e"));
    assert.deepEqual(
      ["a", "b"].map((name) => store.slot(name)?.name),
      ["a", "b"],
    );
    assert.deepEqual(
      (await publisher.readSlots()).map(({ name }) => name),
      ["e"],
    );
    const aside = (await readdir(join(dir.path, "aside"))).map((name) => name.replace(/^\d+-/, "")).toSorted();
    assert.deepEqual(aside, [".x.tmp", ...Object.keys(torn), "dir.json"]);
    assert.deepEqual(await readdir(join(dir.path, "slots")), ["e.json"]);
  });

  it("refuses a name that leaves its directory", async () => {
    await using dir = await tempDir();
    const publisher = await openPublisher(dir.path);
    await assert.rejects(async () => publisher.writeSlot({ ...published("a"), name: "../a" }));
    await assert.rejects(async () => publisher.deleteSlot("../operator"));
  });
});

function demand(gateway: string, slots: Demand["slots"], heartbeat = new Date(), boot = bootId()): Demand {
  const time = heartbeat.toISOString();
  return { schema: 1, gateway, pid: 1, bootId: boot, heartbeat: time, incarnation: time, beat: 1, slots };
}
const one = { held: 1, inFlight: 0, seenRevision: 0, endpoints: [] };

describe("demand", { concurrency: true }, () => {
  it("is not written where its directory is none, and the gateway hears of it", async () => {
    await using dir = await tempDir();
    const writer = await openDemandWriter(dir.path, "g");
    await rm(join(dir.path, "demand"), { recursive: true });
    await writeFile(join(dir.path, "demand"), "");
    await assert.rejects(writer.write(demand("g", { a: one })), { code: "ENOTDIR" });
  });

  it("is reported at a change and not at every heartbeat, and ends by itself without one", async () => {
    await using dir = await tempDir();
    let elapsedMs = 0;
    await using store = await openDemandStore(dir.path, { elapsedMs: () => elapsedMs });
    const told: string[] = [];
    using _watch = store.watch((slots) => told.push(...slots));
    const writer = await openDemandWriter(dir.path, "g");
    await writer.write(demand("g", { a: one, b: one }));
    await until("both", () => told.length === 2);
    await writer.write(demand("g", { a: one, b: { ...one, held: 2 } }));
    await until("the second", () => told.length === 3);
    assert.deepEqual(told, ["a", "b", "b"]);
    elapsedMs = 60_000;
    await until("its end", () => told.length === 5);
    assert.deepEqual([told.slice(3).toSorted(), store.list()], [["a", "b"], []]);
  });

  it("does not come back after the writer is disposed", async () => {
    await using dir = await tempDir();
    const writer = await openDemandWriter(dir.path, "g");
    const writes = [1, 2, 3].map((held) => writer.write(demand("g", { a: { ...one, held } })));
    await writer[Symbol.asyncDispose]();
    await writer.write(demand("g", { a: one }));
    await Promise.all(writes);
    assert.deepEqual(await readdir(join(dir.path, "demand")), []);
  });

  it("of a gateway that was killed long ago is cleared away by the next operator", async () => {
    await using dir = await tempDir();
    await mkdir(join(dir.path, "demand"));
    for (const name of ["killed.json", "alive.json"]) await writeFile(join(dir.path, "demand", name), "{}");
    await utimes(join(dir.path, "demand/killed.json"), 1, 1);
    await openPublisher(dir.path);
    assert.deepEqual(await readdir(join(dir.path, "demand")), ["alive.json"]);
  });
});
