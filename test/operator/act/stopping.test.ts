import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { publishedBefore, stopEngines } from "../../../src/operator/act/stopping.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { RuntimeSet } from "../../../src/runtimes/set.ts";
import { custom, Site } from "../site.ts";

/** An operator that has run for some seconds with these slots. */
async function running(names: readonly string[], seconds = 2): Promise<Site> {
  const site = new Site();
  for (const name of names) site.source.save(name, custom());
  await site.start();
  await site.advance(seconds);
  return site;
}

function stopAll(site: Site): Promise<readonly string[]> {
  return stopEngines(site.runtime, site.publisher, [...site.publisher.slots.values()], { stopSeconds: 1 });
}

/** The next operator, after everything was stopped. */
async function successor(site: Site): Promise<void> {
  // The stop publishes with the time of day, not with the double's.
  site.clock.advance(Date.now() + 1000 - site.clock.now().getTime());
  await site.start();
  await site.advance(3);
}

describe("an operator that stops every engine", () => {
  it("publishes by the rules that they are offline, and a successor loads them again, also those that failed for good", async () => {
    const names = ["a", "loading", "failing", "broken"];
    await using site = await running([]);
    site.runtime.manner("loading").loadMs = 60_000;
    site.runtime.manner("failing").crashAfterMs = 5;
    site.runtime.manner("broken").cannotStart = true;
    for (const name of names) site.source.save(name, custom());
    await site.advance(4);
    assert.deepEqual(
      names.map((name) => site.state(name)),
      ["ready", "warming", "error", "error"],
    );
    site.runtime.manner("broken").cannotStart = false;
    // An operator that is only restarted tries nothing: nobody has asked.
    await site.start();
    await site.advance(2);
    assert.equal(site.condition("broken", "Stalled"), "True/StartFailed");
    await site.end();
    assert.deepEqual([...(await stopAll(site))].toSorted(), ["a", "loading"]);
    assert.deepEqual(await site.runtime.list(), []);
    for (const name of names) {
      const said = [site.state(name), site.condition(name, "Ready"), site.condition(name, "Available")];
      assert.deepEqual(said, ["offline", "Unknown/Stopped", "False/Stopped"], name);
    }
    assert.deepEqual(site.states("a").slice(-2), ["unloading", "offline"]);
    await successor(site);
    for (const name of ["a", "broken"]) {
      const { state, restarts, failures } = site.slot(name).status;
      assert.deepEqual([name, state, restarts, failures], [name, "ready", 0, 0]);
    }
  });

  it("ends them if nothing can be published, and that is logged", async () => {
    await using site = await running(["a"]);
    await site.end();
    site.publisher.writeSlot = () => Promise.reject(new Error("disk full"));
    await assert.rejects(stopAll(site), /disk full/);
    assert.deepEqual(site.runtime.running("a"), []);
  });

  it("ends and reports the others where one cannot be ended", async () => {
    await using site = await running(["a", "b"]);
    await site.end();
    const remove = site.runtime.remove.bind(site.runtime);
    site.runtime.remove = (slot, role) => (slot === "a" ? Promise.reject(new Error("it hangs")) : remove(slot, role));
    await assert.rejects(stopAll(site), /it hangs/);
    assert.deepEqual([site.runtime.running("b"), site.state("a"), site.state("b")], [[], "unloading", "offline"]);
  });

  it("ends an engine of an earlier observation, too, or reports the failure to do so", async () => {
    await using site = await running(["a"]);
    await site.end();
    site.runtime.list = async () => [];
    site.runtime.remove = () => Promise.reject(new Error("the daemon does not answer"));
    await assert.rejects(stopAll(site), /the daemon does not answer/);
  });
});

it("after another boot no engine runs, nothing has failed, and the history says why", async () => {
  await using site = await running(["a"]);
  await site.end();
  const runtimes = new RuntimeSet(site.runtime);
  const slots = await site.publisher.readSlots();
  const before = (boot: string): PublishedSlot | undefined => publishedBefore({ slots, boot }, runtimes).get("a");
  assert.deepEqual(before(runtimes.boot), site.slot("a"));
  const after = before("an earlier boot");
  assert.deepEqual([after?.status.state, after?.status.processes, after?.status.failures], ["offline", [], 0]);
  assert.deepEqual(
    after?.status.transitions.slice(-2).map(({ to, message }) => `${to}: ${message}`),
    ["unloading: the machine was restarted", "offline: the machine was restarted"],
  );
});

describe("an operator that is ended while an engine is being stopped", () => {
  it("does not wait for it; the next one stops it", async () => {
    await using site = await running(["a"]);
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

  it("leaves no failure where the engine ends after it", async () => {
    await using site = await running(["a"]);
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
});
