import assert from "node:assert/strict";
import { test } from "node:test";
import { custom, Site } from "./site.ts";

test("an engine that dies while no status can be written is started again, and told of once that can be", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  await site.start();
  await site.advance(70);
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
  await site.advance(2);
  assert.equal(site.state("a"), "ready");
  assert.deepEqual(site.states("a"), [
    "starting",
    "warming",
    "ready",
    "error",
    "starting",
    "warming",
    "ready",
    "error",
    "starting",
    "warming",
    "ready",
  ]);
  assert.equal(site.log.filter((line) => line.includes("its status is written again")).length, 1);
});

test("what still serves stays readable while no status can be written", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  await site.start();
  await site.advance(70);
  site.publisher.isFull = true;
  site.source.break("a");
  await site.advance(5);
  assert.deepEqual([site.state("a"), site.condition("a", "Stalled")], ["ready", undefined]);
  site.publisher.isFull = false;
  await site.advance(2);
  assert.deepEqual([site.state("a"), site.condition("a", "Stalled")], ["ready", "True/InvalidSpec"]);
});
