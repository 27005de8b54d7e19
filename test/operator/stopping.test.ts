import assert from "node:assert/strict";
import { test } from "node:test";
import { stopEngines } from "../../src/operator/stopping.ts";
import { custom, Site } from "./site.ts";

test("stopping every engine publishes that they are offline, by the rules, and a successor loads them again", async () => {
  await using site = new Site();
  site.runtime.manner("loading").loadMs = 60_000;
  site.runtime.manner("failing").crashAfterMs = 5;
  for (const name of ["a", "loading", "failing"]) site.source.save(name, custom());
  await site.start();
  await site.advance(4);
  assert.deepEqual(
    ["a", "loading", "failing"].map((name) => site.state(name)),
    ["ready", "warming", "error"],
  );
  await site.end();
  const stopped = await stopEngines(site.runtime, site.publisher, [...site.publisher.slots.values()], {
    stopSeconds: 1,
  });
  assert.deepEqual([...stopped].toSorted(), ["a", "loading"]);
  assert.deepEqual(await site.runtime.list(), []);
  for (const name of ["a", "loading", "failing"]) {
    const said = [site.state(name), site.condition(name, "Ready"), site.condition(name, "Available")];
    assert.deepEqual(said, ["offline", "Unknown/Stopped", "False/Stopped"]);
  }
  assert.deepEqual(site.states("a").slice(-2), ["unloading", "offline"]);
  // What is published here bears the time of day, not the double's.
  site.clock.advance(Date.now() + 1000 - site.clock.now().getTime());
  await site.start();
  await site.advance(3);
  assert.equal(site.state("a"), "ready");
  assert.equal(site.slot("a").status.restarts, 0);
});

test("an operator that is ended while an engine is being stopped does not wait for it", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  await site.start();
  await site.advance(2);
  const held = Promise.withResolvers<void>();
  site.runtime.beforeRemoval = held.promise;
  site.source.save("a", custom({ enabled: false }));
  await site.turn();
  assert.equal(site.state("a"), "unloading");
  await site.end();
  assert.deepEqual(site.deeds("a"), ["start main"]);
  held.resolve();
  await site.start();
  await site.advance(1);
  assert.deepEqual([site.state("a"), ...site.deeds("a")], ["offline", "start main", "stop main"]);
});
