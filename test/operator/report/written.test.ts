import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { PublishedWriter } from "../../../src/operator/report/written.ts";
import { processKey } from "../../../src/api/process-ref.ts";
import { custom, Site } from "../site.ts";

const load = ["starting", "warming", "ready"];

test("an engine that ends while no status can be written is started again once that is possible, and never before", async () => {
  await using site = await new Site().run({ a: custom() }, 70);
  const served = structuredClone(site.publisher.slots.get("a"));
  assert.ok(served !== undefined);
  site.publisher.isFull = true;
  site.runtime.kill("a");
  // An engine that starts meanwhile gets another port: gateways may still send to the one that they read of.
  site.source.save("b", custom());
  await site.advance(5);
  assert.deepEqual(site.deeds("a"), ["start main"]);
  assert.deepEqual(site.publisher.slots.get("a"), served);
  assert.equal(site.ports.holder(served.status.port ?? 0), "a/main");
  assert.equal(site.log.filter((line) => line.includes("a: its status is not written: told to fail")).length, 1);
  site.publisher.isFull = false;
  await site.after(10, "a", "ready");
  assert.deepEqual(site.deeds("a"), ["start main", "clear main", "start main"]);
  assert.deepEqual(site.states("a"), [...load, "error", ...load]);
  assert.equal(site.slot("a").status.restarts, 1);
  assert.equal(site.log.filter((line) => line.includes("a: its status is written again")).length, 1);
});

test("an engine of several that ends while no status can be written keeps its port until gateways can read of the end", async () => {
  await using site = await new Site().run({ a: custom({ replicas: 2 }) }, 70);
  const processes = site
    .slot("a")
    .status.processes.map(({ port, ...each }) => [port, processKey({ ...each, slot: "a" })]);
  assert.equal(processes.length, 2);
  site.publisher.isFull = true;
  site.runtime.kill("a", "main-1");
  await site.advance(5);
  const held = processes.map(([port, key]) => [key, site.ports.holder(Number(port))]);
  for (const [key, holder] of held) assert.equal(holder, key);
  site.publisher.isFull = false;
  await site.advance(30);
  assert.deepEqual([site.state("a"), site.slot("a").status.processes.length], ["ready", 2]);
});

test("no engine is stopped while gateways cannot be told, and a slot that serves stays readable", async () => {
  await using site = await new Site().run({ a: custom() }, 70);
  site.publisher.isFull = true;
  await site.request("a", "unload");
  site.source.break("a");
  await site.advance(5);
  assert.deepEqual([site.state("a"), site.condition("a", "Stalled")], ["ready", undefined]);
  assert.deepEqual(site.deeds("a"), ["start main"]);
  site.publisher.isFull = false;
  await site.advance(5);
  assert.deepEqual([site.state("a"), site.condition("a", "Stalled")], ["offline", "True/InvalidSpec"]);
});

test("a status that somebody has deleted is told of with its place, be that a directory or the cluster, and written again", async () => {
  await using site = await new Site().run({ a: custom() }, 70);
  site.publisher.place = "the cluster";
  const writer = new PublishedWriter(site.publisher, pino({ level: "silent" }));
  const slot = site.publisher.slots.get("a");
  assert.ok(slot !== undefined);
  site.publisher.missingSlots = () => ["a", "b"];
  assert.deepEqual(writer.noteDeleted(["a", "b"]), ["a", "b"]);
  assert.deepEqual(writer.problems(), [
    {
      reason: "StatusNotWritten",
      message:
        "the status of a, b is not written in the cluster: it was deleted; until it is, nothing more is done for these slots",
    },
  ]);
  writer.forget("b");
  site.publisher.slots.delete("a");
  assert.equal(await writer.write(slot), true);
  assert.deepEqual(writer.problems(), []);
});
