import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { custom, Site } from "./site.ts";

describe("on demand", () => {
  const cold = custom({ load: "onDemand", idleSeconds: 30 });
  const [once, unloaded] = [["start main"], ["start main", "stop main"]];

  test("a held request loads the slot; stale demand unloads it when its idle time is over", async () => {
    await using site = await new Site().run({ cold }, 60);
    assert.deepEqual([site.state("cold"), site.condition("cold", "Ready")], ["offline", "True/ScaledToZero"]);
    site.ask("cold", { held: 1 });
    await site.after(2, "cold", "ready");
    site.ask("cold", { held: 0, inFlight: 0 });
    await site.after(29, "cold", "ready");
    await site.after(3, "cold", "offline", unloaded);
  });

  test("an obstacle to loading is shown before any request, and is gone once it is mended", async () => {
    await using site = await new Site().run({ first: custom({ port: 8085 }) });
    site.source.save("second", { ...cold, port: 8085 });
    site.source.save("third", { load: "onDemand", model: { default: "absent" } });
    await site.advance(1);
    const shown = (slot: string): unknown[] => [site.state(slot), site.condition(slot, "Stalled")];
    assert.deepEqual(shown("second"), ["error", "True/PortConflict"]);
    assert.deepEqual(shown("third"), ["error", "True/ModelNotFound"]);
    // Asking says the same.
    site.ask("third", { held: 1 });
    await site.advance(1);
    assert.deepEqual(shown("third"), ["error", "True/ModelNotFound"]);
    site.demand.forget("third");
    site.source.save("first", custom({ port: 8086 }));
    site.setModel("absent");
    await site.advance(1);
    assert.deepEqual([...shown("second"), site.condition("third", "Stalled")], ["offline", undefined, undefined]);
    assert.deepEqual([site.condition("second", "Ready"), site.deeds("second")], ["True/ScaledToZero", []]);
  });

  test("the slot stays loaded for its idle time when its gateway ends, with a successor or without", async () => {
    await using site = await new Site().run({ cold });
    site.ask("cold", { inFlight: 1 });
    await site.advance(60);
    site.demand.forget("cold");
    await site.after(20, "cold", "ready", once);
    site.ask("cold");
    await site.advance(1);
    site.demand.forget("cold");
    site.demand.isGone = true;
    await site.advance(10);
    await site.start();
    await site.after(15, "cold", "ready", once);
    await site.after(10, "cold", "offline", unloaded);
    assert.equal(site.slot("cold").status.idleSince, undefined);
  });

  test("an unload ends one engine, and not the next engine, which held requests get", async () => {
    await using site = await new Site().run({ cold });
    site.ask("cold", { held: 1 });
    await site.advance(0.03);
    await site.request("cold", "unload");
    await site.after(5, "cold", "ready", [...unloaded, "start main"]);
    site.demand.set("cold", { held: 0, inFlight: 1 });
    await site.after(60, "cold", "ready");
    site.demand.set("cold", { inFlight: 0 });
    await site.after(15, "cold", "ready");
    await site.after(20, "cold", "offline");
  });
});

test("an always-loaded slot that was unloaded stays so until a load or restart request, or an edit", async () => {
  const slots = ["loaded", "restarted", "edited"];
  await using site = await new Site().run(Object.fromEntries(slots.map((slot) => [slot, custom()])));
  for (const slot of slots) await site.request(slot, "unload");
  await site.advance(30);
  await site.start();
  for (const slot of slots)
    assert.deepEqual([site.state(slot), site.condition(slot, "Available")], ["offline", "False/Unloaded"], slot);
  await site.request("loaded", "load");
  await site.request("restarted", "restart");
  site.source.save("edited", custom({ idleSeconds: 5 }));
  await site.advance(5);
  for (const slot of slots) assert.deepEqual([site.state(slot), ...site.requests.list(slot)], ["ready"], slot);
});

test("a swap holds over other edits and operator restarts, until the manifest names another model", async () => {
  await using site = await new Site().run({ a: custom() });
  await site.request("a", "swap-model", { model: "big", specModel: "m" });
  await site.advance(5);
  const swapped = { ref: "big", origin: "swap", spec: "m", previous: "m", served: "big" };
  assert.deepEqual(site.slot("a").status.model, swapped);
  site.source.save("a", custom({ idleSeconds: 5 }));
  await site.advance(5);
  await site.start();
  await site.advance(5);
  assert.deepEqual(site.slot("a").status.model, swapped);
  site.source.save("a", custom({ model: { default: "tiny" } }));
  await site.advance(5);
  assert.deepEqual(site.slot("a").status.model, { ref: "tiny", origin: "spec", previous: "big", served: "tiny" });
  assert.deepEqual(site.requests.list("a"), []);
});

describe("two processes", () => {
  const embed = { model: { default: "tiny", rerank: "ranker" } };
  const started = ["start main", "start rerank"];
  const ready = (site: Site): string[] =>
    site.slot("embed").status.processes.map(({ role, isReady }) => `${role} ${isReady}`);

  test("are a single slot; a process that ends alone is restarted alone", async () => {
    await using site = await new Site().run({ embed });
    assert.deepEqual([site.state("embed"), ...site.deeds("embed")], ["ready", ...started]);
    site.runtime.kill("embed", "rerank");
    await site.settle();
    assert.deepEqual([site.state("embed"), site.condition("embed", "Available")], ["ready", "True/Loaded"]);
    const available = site.slot("embed").status.conditions.find(({ type }) => type === "Available");
    assert.equal(available?.message, "the loaded engine serves requests", "not what the other process has");
    assert.deepEqual(ready(site), ["main true"]);
    await site.advance(5);
    assert.deepEqual([site.state("embed"), site.condition("embed", "Ready")], ["ready", "True/Loaded"]);
    assert.deepEqual(site.deeds("embed").slice(2), ["clear rerank", "start rerank"]);
    site.runtime.kill("embed", "main");
    await site.settle();
    assert.equal(site.state("embed"), "error");
    await site.advance(5);
    assert.deepEqual([site.state("embed"), ...site.deeds("embed").slice(4)], ["ready", "clear main", "start main"]);
  });

  for (const [isGone, seconds] of [
    [false, 5],
    [true, 0.5],
  ] as const) {
    const when = isGone ? "at once where no gateway runs" : "once gateways have let go of it";
    test(`a process that is no longer declared is stopped ${when}, and the other continues`, async () => {
      await using site = new Site();
      site.demand.isGone = isGone;
      await site.run({ embed });
      site.source.save("embed", { model: { default: "tiny" } });
      await site.advance(seconds);
      assert.deepEqual(site.deeds("embed"), [...started, "stop rerank"]);
      assert.deepEqual(site.states("embed"), ["starting", "warming", "ready"]);
    });
  }

  test("a second process that starts late has its own time for its first answer", async () => {
    await using site = await new Site().run({ embed: { ...embed, probe: { startupSeconds: 60 } } }, 200);
    site.runtime.kill("embed", "rerank");
    await site.advance(5);
    assert.equal(site.condition("embed", "Ready"), "True/Loaded");
    const port = site.runtime.portOf("embed", "rerank");
    const last = site.runtime.warmUps.findLast((warmUp) => warmUp.port === port);
    assert.ok(last !== undefined && last.timeoutMs > 50_000, JSON.stringify(last));
  });
});

describe("an operator's successor", () => {
  test("adopts what runs without a change of state, and starts nothing anew", async () => {
    await using site = await new Site().run({ a: custom(), primary: { model: { default: "tiny" } } });
    const revisions = (): number[] => ["a", "primary"].map((name) => site.slot(name).revision);
    const before = revisions();
    await site.start();
    await site.advance(20);
    assert.deepEqual([revisions(), site.deeds("a"), site.deeds("primary")], [before, ["start main"], ["start main"]]);
  });

  test("stops an engine that nothing declares", async () => {
    await using site = await new Site().run({ a: custom() });
    await site.end();
    site.source.delete("a");
    site.publisher.slots.delete("a");
    await site.start();
    await site.advance(40);
    assert.deepEqual([...site.runtime.running("a"), site.publisher.slots.has("a")], [false]);
  });
});

describe("an engine that was ready and closes its listening socket", () => {
  test("is restarted, also by the operator that finds it so", async () => {
    await using site = await new Site().run({ a: custom() }, 70);
    await site.end();
    site.runtime.deafen("a");
    await site.start();
    await site.after(5, "a", "ready", ["start main", "stop main", "start main"]);
    const { failures, lastError } = site.slot("a").status;
    assert.deepEqual([failures, lastError?.reason], [1, "NotListening"]);
  });
});

test("a container that somebody pauses is unpaused without a restart, and counted", async () => {
  await using site = await new Site().run({ a: custom() });
  site.runtime.pause("a");
  await site.after(5, "a", "ready", ["start main"]);
  const page = async (): Promise<string> => String((await site.controller.metrics.page.render()).body);
  assert.match(await page(), /^berth_drift_repaired_total\{slot="a",reason="Paused"\} 1$/m);
  site.source.delete("a");
  await site.advance(5);
  assert.doesNotMatch(await page(), /berth_drift_repaired_total\{/);
});

test("a repair that fails while another process is coming is tried again, and not at once", async () => {
  await using site = await new Site().run({ embed: { model: { default: "tiny", rerank: "ranker" } } }, 0);
  site.runtime.manner("embed").startMs = 10_000;
  const refusal = Promise.reject(new Error("told to fail: it cannot be unpaused"));
  refusal.catch(() => undefined);
  site.runtime.beforeStart = refusal;
  site.runtime.pause("embed");
  const asked = site.source.asked.length;
  await site.advance(1);
  assert.ok(site.source.asked.length - asked < 100, `${site.source.asked.length - asked} looks in one second`);
  site.runtime.beforeStart = undefined;
  await site.after(20, "embed", "ready");
});

describe("a slot of which one process fails for long while the other is loaded", () => {
  /** How often the slot is looked at in ten seconds. */
  const looks = async (site: Site, slot: string): Promise<number> => {
    let count = 0;
    const observe = site.runtime.observe.bind(site.runtime);
    site.runtime.observe = async (name) => {
      if (name === slot) count += 1;
      return await observe(name);
    };
    await site.advance(10);
    site.runtime.observe = observe;
    return count;
  };

  test("is looked at for events, also where a person must act", async () => {
    await using site = await new Site().run({ many: custom({ replicas: 2 }) }, 70);
    site.runtime.manner("many").cannotStart = true;
    site.runtime.kill("many", "main-1");
    await site.advance(80);
    assert.deepEqual([site.state("many"), site.condition("many", "Stalled")], ["ready", "True/StartFailed"]);
    assert.ok((await looks(site, "many")) < 10);
  });

  test("is not looked at again and again once its idle time is over", async () => {
    await using site = new Site();
    site.source.save("embed", { load: "onDemand", idleSeconds: 3, model: { default: "m", rerank: "ranker" } });
    await site.start();
    site.ask("embed", { held: 1 });
    await site.advance(0.1);
    // It backs off for eight seconds by then.
    for (let kills = 0; kills < 4; kills++) {
      site.runtime.kill("embed", "main");
      await site.advance(0.1);
      while (kills < 3 && !site.runtime.running("embed").includes("main")) await site.advance(0.5);
    }
    site.ask("embed", { held: 0 });
    assert.ok((await looks(site, "embed")) < 100);
  });
});

test("an engine whose socket is gone gets no probe, which a stranger on its port could read", async () => {
  await using site = await new Site().run({ a: custom({ stopSeconds: 60 }) }, 20);
  const now = site.clock.now().toISOString();
  site.demand.set("a", { inFlight: 1, lastByteAt: now, lastRequestAt: now });
  site.runtime.deafen("a");
  await site.advance(3);
  let probes = 0;
  site.probes = async (probe) => {
    probes += 1;
    return await site.runtime.probe(probe);
  };
  site.runtime.strangers.add(8081);
  await site.advance(20);
  assert.deepEqual([site.state("a"), probes], ["unloading", 0]);
});

test("an engine whose slot is deleted is ended, also where its status cannot be written", async () => {
  await using site = await new Site().run({ a: custom() });
  site.publisher.isFull = true;
  site.source.delete("a");
  await site.advance(40);
  assert.deepEqual(site.runtime.running("a"), []);
  site.publisher.isFull = false;
});

test("a built-in slot's status that found no room is written once there is some", async () => {
  await using site = new Site();
  site.publisher.isFull = true;
  await site.run({}, 2);
  site.publisher.isFull = false;
  await site.advance(3);
  assert.equal(site.state("stt"), "offline");
});
