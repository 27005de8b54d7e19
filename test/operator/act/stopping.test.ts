import assert from "node:assert/strict";
import { test } from "node:test";
import { publishedBefore, stopEngines } from "../../../src/operator/act/stopping.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { RuntimeSet } from "../../../src/runtimes/set.ts";
import { custom, Site } from "../site.ts";

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

test("a slot that failed for good is tried again after everything was stopped, and its start is not counted as a restart", async () => {
  await using site = new Site();
  site.runtime.manner("a").cannotStart = true;
  site.source.save("a", custom());
  await site.start();
  await site.advance(10);
  assert.deepEqual([site.state("a"), site.condition("a", "Stalled")], ["error", "True/StartFailed"]);
  // An operator alone that is restarted tries nothing: nobody has asked.
  site.runtime.manner("a").cannotStart = false;
  await site.start();
  await site.advance(10);
  assert.equal(site.condition("a", "Stalled"), "True/StartFailed");
  await site.end();
  await stopAll(site);
  site.clock.advance(Date.now() + 1000 - site.clock.now().getTime());
  await site.start();
  await site.advance(3);
  const { restarts, failures } = site.slot("a").status;
  assert.deepEqual([site.state("a"), restarts, failures], ["ready", 0, 0]);
});

test("after another boot no engine runs, nothing has failed, and the history says why", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  await site.start();
  await site.advance(2);
  await site.end();
  const { boot } = new RuntimeSet(site.runtime);
  const slots = await site.publisher.readSlots();
  const before = (from: string): PublishedSlot | undefined =>
    publishedBefore({ slots, boot: from }, new RuntimeSet(site.runtime)).get("a");
  assert.deepEqual(before(boot), site.slot("a"));
  const after = before("an earlier boot");
  assert.deepEqual([after?.status.state, after?.status.processes, after?.status.failures], ["offline", [], 0]);
  assert.deepEqual(
    after?.status.transitions.slice(-2).map(({ to, message }) => `${to}: ${message}`),
    ["unloading: the machine was restarted", "offline: the machine was restarted"],
  );
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

test("an engine that an earlier operator was stopping has not failed when it ends after that operator", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  await site.start();
  await site.advance(2);
  site.runtime.beforeRemoval = new Promise(() => undefined);
  await site.request("a", "restart");
  await site.turn();
  assert.equal(site.state("a"), "unloading");
  await site.end();
  site.runtime.kill("a");
  site.runtime.beforeRemoval = undefined;
  await site.start();
  await site.advance(2);
  const { restarts, failures, lastError } = site.slot("a").status;
  assert.deepEqual([site.state("a"), restarts, failures, lastError], ["ready", 0, 0, undefined]);
});

test("engines are ended if nothing can be published, and that is logged", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  await site.start();
  await site.advance(2);
  await site.end();
  site.publisher.writeSlot = () => Promise.reject(new Error("disk full"));
  await assert.rejects(stopAll(site), /disk full/);
  assert.deepEqual(site.runtime.running("a"), []);
});

test("an engine that cannot be ended does not keep other engines from being ended and reported", async () => {
  await using site = new Site();
  for (const name of ["a", "b"]) site.source.save(name, custom());
  await site.start();
  await site.advance(2);
  await site.end();
  const remove = site.runtime.remove.bind(site.runtime);
  site.runtime.remove = (slot, role) => (slot === "a" ? Promise.reject(new Error("it hangs")) : remove(slot, role));
  await assert.rejects(stopAll(site), /it hangs/);
  assert.deepEqual(site.runtime.running("b"), []);
  assert.deepEqual(
    ["a", "b"].map((name) => site.state(name)),
    ["unloading", "offline"],
  );
});

test("an engine from an earlier observation is ended, or the failure to end it is reported", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  await site.start();
  await site.advance(2);
  await site.end();
  site.runtime.list = async () => [];
  site.runtime.remove = () => Promise.reject(new Error("the daemon does not answer"));
  await assert.rejects(stopAll(site), /the daemon does not answer/);
});

async function stopAll(site: Site): Promise<readonly string[]> {
  return await stopEngines(site.runtime, site.publisher, [...site.publisher.slots.values()], { stopSeconds: 1 });
}
