import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { PublishedWriter } from "../../../src/operator/report/written.ts";
import { PublisherDouble } from "../../doubles/state.ts";
import { custom, Site } from "../site.ts";

test("an engine that ends while no status can be written is started again, and published once that is possible", async () => {
  await using site = await new Site().run({ a: custom() }, 70);
  site.publisher.isFull = true;
  site.runtime.kill("a");
  await site.advance(5);
  assert.deepEqual(site.deeds("a"), ["start main", "clear main", "start main"]);
  // A gateway must not send to what is gone: what cannot be replaced is taken away.
  assert.equal(site.publisher.slots.has("a"), false);
  assert.equal(site.log.filter((line) => line.includes("its status cannot be written")).length, 1);
  site.runtime.kill("a");
  await site.advance(5);
  site.publisher.isFull = false;
  await site.after(2, "a", "ready");
  const load = ["starting", "warming", "ready"];
  assert.deepEqual(site.states("a"), [...load, "error", ...load, "error", ...load]);
  assert.equal(site.log.filter((line) => line.includes("its status is written again")).length, 1);
});

test("a serving slot stays readable while no status can be written", async () => {
  await using site = await new Site().run({ a: custom() }, 70);
  site.publisher.isFull = true;
  site.source.break("a");
  await site.advance(5);
  assert.deepEqual([site.state("a"), site.condition("a", "Stalled")], ["ready", undefined]);
  site.publisher.isFull = false;
  await site.advance(2);
  assert.deepEqual([site.state("a"), site.condition("a", "Stalled")], ["ready", "True/InvalidSpec"]);
});

test("gateways read what they serve with where only a part of a status fits, and the rest once there is room", async () => {
  await using site = await new Site().run({ a: custom() }, 70);
  const found = site.publisher.slots.get("a");
  assert.ok(found !== undefined);
  const slot = { ...found, file: "/etc/berth/slots/a.toml" };
  // A disk of its own: the whole status follows its part under the same revision, which the site's checks forbid.
  const publisher = new PublisherDouble();
  const writer = new PublishedWriter(publisher, pino({ level: "silent" }));
  const next = { ...slot, revision: slot.revision + 1, spec: { ...slot.spec, env: { PADDING: "x".repeat(9000) } } };
  publisher.roomBytes = JSON.stringify(slot).length;
  await writer.write(next, slot);
  const { file: _file, ...expected } = next;
  assert.deepEqual(publisher.slots.get("a"), {
    ...expected,
    spec: { ...next.spec, env: {} },
    status: { ...next.status, decisions: {}, transitions: next.status.transitions.slice(-3) },
  });
  assert.equal(writer.isBehind("a"), true);
  publisher.roomBytes = Infinity;
  await writer.write(next, undefined);
  assert.deepEqual(publisher.slots.get("a"), next);
  assert.equal(writer.isBehind("a"), false);
});

test("state that was deleted is told of with its place, be that a directory or the cluster", () => {
  const publisher = new PublisherDouble();
  publisher.place = "the cluster";
  publisher.missingSlots = () => ["a", "b"];
  const writer = new PublishedWriter(publisher, pino({ level: "silent" }));
  assert.deepEqual(writer.markDeleted(["a", "b"]), ["a", "b"]);
  assert.deepEqual(
    writer.problems().map(({ reason, message }) => `${reason}: ${message}`),
    [
      "StatusNotWritten: the status of a, b cannot be written in the cluster: it was deleted",
      "StateDeleted: the state of 2 slots in the cluster was deleted while the operator runs, and is written again",
    ],
  );
});
