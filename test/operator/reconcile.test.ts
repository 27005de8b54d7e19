import assert from "node:assert/strict";
import { test } from "node:test";
import { custom, Site } from "./site.ts";

test("a declared slot goes from offline to ready, each state with its conditions", async () => {
  await using site = new Site();
  site.runtime.manner("a").loadMs = 300;
  await site.start();
  site.source.save("a", custom());
  await site.settle();
  assert.deepEqual([site.state("a"), site.condition("a", "Available")], ["starting", "False/Starting"]);
  await site.advance(0.1);
  assert.deepEqual([site.state("a"), site.condition("a", "Available")], ["warming", "False/Warming"]);
  await site.advance(1);
  assert.deepEqual([site.state("a"), site.condition("a", "Ready")], ["ready", "True/Loaded"]);
  assert.deepEqual(site.states("a"), ["starting", "warming", "ready"]);
  const { endpoint, port, lastLoad, restarts, model } = site.slot("a").status;
  assert.deepEqual({ endpoint, port, restarts }, { endpoint: "http://127.0.0.1:8081", port: 8081, restarts: 0 });
  assert.deepEqual(model, { ref: "m", origin: "spec", served: "m" });
  assert.ok((lastLoad?.startSeconds ?? 0) > 0 && (lastLoad?.warmSeconds ?? 0) > 0, JSON.stringify(lastLoad));
});

test("a load is published with the times of the one before, of the same model", async () => {
  await using site = new Site();
  site.runtime.manner("a").loadMs = 300;
  await site.start();
  site.source.save("a", custom());
  await site.advance(2);
  const { startSeconds = 0, warmSeconds = 0 } = site.slot("a").status.lastLoad ?? {};
  await site.request("a", "restart");
  await site.advance(0.1);
  assert.deepEqual(site.slot("a").status.lastLoad?.previous, { startSeconds, warmSeconds });
  await site.advance(2);
  assert.equal(site.state("a"), "ready");
  await site.request("a", "swap-model", { model: "tiny", specModel: "m" });
  await site.advance(2);
  assert.deepEqual([site.slot("a").status.model.ref, site.slot("a").status.lastLoad?.previous], ["tiny", undefined]);
});

test("a llama engine gets a warm-up request before it is ready, and a failing warm-up keeps it warming", async () => {
  await using site = new Site();
  site.runtime.manner("primary").probe = "warm-up-fails";
  await site.start();
  site.source.save("primary", { model: { default: "tiny" } });
  await site.advance(5);
  assert.equal(site.state("primary"), "warming");
  const { message } = site.slot("primary").plan;
  assert.match(message, /a first request proves .* the last try failed: .* answered 500/);
  // It is tried again more and more rarely, and status is as still meanwhile.
  const { writes } = site.publisher;
  const told = site.log.length;
  await site.advance(60);
  assert.deepEqual([site.state("primary"), site.slot("primary").plan.message], ["warming", message]);
  assert.deepEqual(site.states("primary"), ["starting", "warming"]);
  const written = site.publisher.writes - writes;
  assert.ok(written >= 12 && written <= 40, `${written} writes`);
  assert.equal(site.log.length, told);
  site.runtime.manner("primary").probe = "healthy";
  await site.advance(6);
  assert.equal(site.state("primary"), "ready");
});

test("an engine that refuses the warm-up request stalls its slot at once, until an edit or a restart", async () => {
  await using site = new Site();
  site.runtime.manner("primary").probe = "warm-up-refused";
  await site.start();
  site.source.save("primary", { model: { default: "tiny" } });
  await site.advance(2);
  const told = "/v1/chat/completions answered 400: no such role";
  const { lastError, nextRetryAt } = site.slot("primary").status;
  assert.deepEqual([site.state("primary"), site.condition("primary", "Stalled")], ["error", "True/WarmUpRefused"]);
  assert.deepEqual([lastError?.reason, lastError?.message, nextRetryAt], ["WarmUpRefused", told, undefined]);
  await site.advance(60);
  assert.deepEqual(site.deeds("primary"), ["start main", "stop main"]);
  site.runtime.manner("primary").probe = "healthy";
  await site.request("primary", "restart");
  await site.advance(6);
  assert.equal(site.state("primary"), "ready");
});

test("a source that counts its specs says which generation is published", async () => {
  await using site = new Site();
  await site.start();
  site.source.generation = 41;
  site.source.save("a", custom());
  await site.advance(2);
  assert.deepEqual([site.slot("a").generation, site.slot("a").status.observedGeneration], [41, 41]);
  site.source.generation = 44;
  site.source.save("a", custom({ idleSeconds: 5 }));
  await site.settle();
  assert.deepEqual([site.slot("a").generation, site.slot("a").status.observedGeneration], [44, 44]);
});

test("an edit that does not change the engine never restarts it, and is logged once", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("a", custom());
  await site.advance(5);
  site.source.save("a", custom({ idleSeconds: 5 }), { team: "blue" });
  await site.settle();
  site.source.save("a", custom({ aliases: ["gpt-4"], concurrency: { max: 3, queue: 1 } }));
  await site.settle();
  site.source.save("a", custom({ probe: { intervalSeconds: 2 }, stopSeconds: 3 }));
  await site.advance(20);
  assert.deepEqual(site.deeds("a"), ["start main"]);
  assert.equal(site.slot("a").generation, 4);
  assert.equal(site.slot("a").status.observedGeneration, 4);
  assert.equal(site.log.filter((line) => line.includes("a: ready: the edit is accepted; ")).length, 3);
});

test("an edit of the launch line drains, stops and starts the engine again", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("a", custom());
  await site.advance(5);
  site.demand.set("a", { inFlight: 1 });
  site.source.save("a", custom({ args: ["--more"] }));
  await site.settle();
  assert.equal(site.state("a"), "unloading");
  assert.deepEqual(site.deeds("a"), ["start main"]);
  site.demand.set("a", { inFlight: 0 });
  await site.advance(2);
  assert.deepEqual(site.deeds("a"), ["start main", "stop main", "start main"]);
  assert.deepEqual(site.states("a"), ["starting", "warming", "ready", "unloading", "starting", "warming", "ready"]);
});

test("a gateway that confirms nothing holds an unloading engine for stopSeconds", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("a", custom({ stopSeconds: 7 }));
  await site.advance(5);
  site.demand.isSlow = true;
  site.source.save("a", custom({ stopSeconds: 7, enabled: false }));
  await site.advance(6.5);
  assert.deepEqual(site.deeds("a"), ["start main"]);
  await site.advance(1);
  assert.deepEqual(site.deeds("a"), ["start main", "stop main"]);
  assert.deepEqual([site.state("a"), site.condition("a", "Ready")], ["offline", "True/Disabled"]);
});

test("an engine that still loads is stopped at once, without waiting for gateways", async () => {
  await using site = new Site();
  site.runtime.manner("a").loadMs = 60_000;
  site.demand.isSlow = true;
  await site.start();
  site.source.save("a", custom());
  await site.advance(3);
  site.source.save("a", custom({ enabled: false }));
  await site.settle();
  assert.deepEqual([site.state("a"), ...site.deeds("a")], ["offline", "start main", "stop main"]);
});

test("a crash loop backs off, reports the next attempt, and is ended by an edit", async () => {
  await using site = new Site();
  site.runtime.manner("a").crashAfterMs = 10;
  await site.start();
  site.source.save("a", custom());
  await site.advance(0.5);
  const { status } = site.slot("a");
  assert.deepEqual([status.state, status.failures, status.lastError?.reason], ["error", 1, "Exited"]);
  assert.equal(status.nextRetryAt, "2026-01-01T00:00:01.010Z");
  assert.equal(site.condition("a", "Reconciling"), "True/ProgressingWithRetry");
  await site.advance(15);
  const starts = site.runtime.deeds.filter(({ did }) => did === "start").map(({ at }) => at.getTime());
  const gaps = starts.slice(1).map((at, index) => at - (starts[index] ?? 0));
  assert.deepEqual(gaps, [1010, 2010, 4010, 8010]);
  assert.deepEqual([site.slot("a").status.restarts, site.slot("a").status.failures], [4, 5]);
  site.runtime.manner("a").crashAfterMs = undefined;
  site.source.save("a", custom({ args: ["--mended"] }));
  await site.advance(1);
  assert.deepEqual([site.state("a"), site.slot("a").status.failures], ["ready", 0]);
});

test("a restart request ends the back-off of a crash loop, and is confirmed in status", async () => {
  await using site = new Site();
  site.runtime.manner("a").crashAfterMs = 10;
  await site.start();
  site.source.save("a", custom());
  await site.advance(60);
  assert.ok(site.slot("a").status.failures > 4);
  site.runtime.manner("a").crashAfterMs = undefined;
  const token = await site.request("a", "restart");
  await site.advance(1);
  assert.equal(site.state("a"), "ready");
  assert.deepEqual(site.slot("a").status.handledRequests, { restart: token });
  assert.deepEqual(site.requests.list("a"), []);
});

test("the first end after a minute of ready starts again at once; the next backs off", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("a", custom());
  await site.advance(90);
  site.runtime.kill("a");
  await site.settle();
  assert.deepEqual(site.states("a").slice(-2), ["error", "starting"]);
  assert.equal(site.slot("a").status.lastError?.message, "killed by SIGKILL");
  await site.advance(1);
  assert.equal(site.state("a"), "ready");
  assert.equal(site.slot("a").status.restarts, 1);
  site.runtime.kill("a");
  await site.settle();
  assert.equal(site.state("a"), "error");
  assert.notEqual(site.slot("a").status.nextRetryAt, undefined);
  await site.advance(3);
  assert.equal(site.state("a"), "ready");
  await site.advance(70);
  assert.equal(site.slot("a").status.failures, 0);
});

test("an engine that vanishes unseen is an error, then loads again", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("a", custom());
  await site.advance(5);
  site.runtime.lose("a");
  await site.settle();
  assert.deepEqual([site.state("a"), site.slot("a").status.lastError?.reason], ["error", "Vanished"]);
  await site.advance(3);
  assert.equal(site.state("a"), "ready");
});

test("a program that cannot be started waits for a person: an edit or a request, not for another operator", async () => {
  await using site = new Site();
  site.runtime.manner("a").cannotStart = true;
  await site.start();
  site.source.save("a", custom());
  await site.advance(700);
  assert.deepEqual([site.state("a"), site.condition("a", "Stalled")], ["error", "True/StartFailed"]);
  assert.deepEqual(site.deeds("a"), ["start main", "clear main"]);
  site.runtime.manner("a").cannotStart = false;
  await site.end();
  await site.start();
  await site.advance(700);
  assert.deepEqual([site.state("a"), site.condition("a", "Stalled")], ["error", "True/StartFailed"]);
  assert.deepEqual(site.deeds("a"), ["start main", "clear main"]);
  await site.request("a", "restart");
  await site.advance(1);
  assert.equal(site.state("a"), "ready");
});

test("an edit that is saved while the earlier spec is being refused still starts the engine", async () => {
  await using site = new Site();
  const held = Promise.withResolvers<void>();
  site.runtime.beforeStart = held.promise;
  await site.start();
  site.source.save("a", custom({ command: ["/nope"] }));
  await site.turn();
  site.source.save("a", custom());
  await site.turn();
  held.resolve();
  await site.advance(2);
  assert.deepEqual([site.state("a"), site.slot("a").status.failures], ["ready", 0]);
});

test("a slot whose cause of failure has ended is started again", async () => {
  await using site = new Site();
  site.runtime.manner("primary").crashAfterMs = 10;
  await site.start();
  site.source.save("primary", { model: { default: "tiny" } });
  await site.advance(8);
  assert.ok(site.slot("primary").status.failures > 2);
  site.runtime.manner("primary").crashAfterMs = undefined;
  site.setModel("tiny", { state: "missing", reason: "ModelFileMissing", message: "tiny.gguf is gone" });
  await site.advance(30);
  assert.deepEqual([site.state("primary"), site.condition("primary", "Stalled")], ["error", "True/ModelFileMissing"]);
  assert.equal(site.slot("primary").status.lastError?.reason, "ModelFileMissing");
  site.setModel("tiny");
  await site.advance(2);
  assert.equal(site.state("primary"), "ready");
});

test("probes that fail restart an idle engine, and `ready` is gone before it is stopped", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("a", custom());
  await site.advance(5);
  site.runtime.manner("a").probe = "hanging";
  await site.advance(9);
  assert.equal(site.state("a"), "ready");
  const revision = site.slot("a").revision;
  await site.advance(7);
  assert.equal(site.slot("a").status.lastError?.reason, "Unhealthy");
  assert.ok(site.slot("a").revision > revision);
  assert.deepEqual(site.deeds("a").slice(0, 2), ["start main", "stop main"]);
  site.runtime.manner("a").probe = "healthy";
  await site.advance(10);
  assert.equal(site.state("a"), "ready");
});

test("a busy engine is not restarted for failing probes, unless it sends nothing for hungSeconds", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("a", custom({ probe: { hungSeconds: 60 } }));
  await site.advance(5);
  site.demand.set("a", { inFlight: 1, lastByteAt: site.clock.now().toISOString() });
  site.runtime.manner("a").probe = "hanging";
  await site.advance(40);
  assert.deepEqual([site.state("a"), ...site.deeds("a")], ["ready", "start main"]);
  assert.equal(site.condition("a", "Ready"), "False/Unhealthy");
  await site.advance(40);
  assert.deepEqual(site.deeds("a").slice(0, 2), ["start main", "stop main"]);
});

test("a deleted slot is drained, stopped and forgotten, never called invalid", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("coder", custom({ stopSeconds: 5 }));
  await site.advance(5);
  await site.request("coder", "swap-model", { model: "big", specModel: "m" });
  await site.advance(5);
  site.demand.set("coder", { inFlight: 1 });
  site.source.delete("coder");
  await site.advance(1);
  assert.deepEqual([site.state("coder"), site.slot("coder").plan.reason], ["unloading", "Deleted"]);
  assert.equal(site.slot("coder").status.lastError, undefined);
  assert.equal(site.slot("coder").spec.stopSeconds, 5);
  await site.advance(5);
  assert.equal(site.publisher.slots.has("coder"), false);
  assert.deepEqual([...site.runtime.running("coder"), ...site.requests.list("coder")], []);
  assert.ok(!site.log.some((line) => line.includes("InvalidSpec")));
});

test("deleting a built-in leaves it, not configured", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("primary", { model: { default: "tiny" } });
  await site.advance(5);
  site.source.delete("primary");
  await site.advance(5);
  assert.deepEqual([site.state("primary"), site.condition("primary", "Ready")], ["offline", "True/NotConfigured"]);
});

test("a Model that arrives just after its slot was never missing; one that does not is", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("primary", { model: { default: "late" } });
  await site.advance(0.2);
  site.setModel("late");
  await site.advance(10);
  assert.equal(site.state("primary"), "ready");
  assert.ok(!JSON.stringify([site.slot("primary"), site.log]).includes("ModelNotFound"));
  site.source.save("primary", { model: { default: "nowhere" } });
  await site.advance(0.4);
  assert.ok(!JSON.stringify(site.slot("primary")).includes("ModelNotFound"));
  await site.advance(0.2);
  assert.equal(site.slot("primary").status.lastError?.reason, "ModelNotFound");
});

test("a slot of the same name and spec, made anew, is waited for anew", async () => {
  await using site = new Site();
  await site.start();
  for (const _time of ["first", "again"]) {
    site.source.save("mine", { load: "onDemand", model: { default: "tiny", onRequest: ["nowhere"] } });
    await site.advance(0.4);
    assert.ok(!site.publisher.slots.has("mine"));
    await site.advance(0.2);
    assert.match(JSON.stringify(site.slot("mine").status.conditions), /nowhere/);
    site.source.delete("mine");
    await site.settle();
    assert.ok(!site.publisher.slots.has("mine"));
  }
});

test("every slot has a status when the operator has started, also where its model is missing", async () => {
  await using site = new Site();
  site.source.save("mine", { model: { default: "nowhere" } });
  await site.start();
  assert.equal(site.slot("mine").status.lastError?.reason, "ModelNotFound");
});

test("a slot whose Model has not come yet holds up no other slot of its group", async () => {
  await using site = new Site();
  site.source.group("gpu", { budget: { memoryBytes: 2 ** 30 } });
  await site.start();
  site.source.save("early", { model: { default: "late" }, group: "gpu" });
  await site.settle();
  site.source.save("other", custom({ group: "gpu" }));
  await site.advance(0.3);
  assert.deepEqual(site.deeds("other"), ["start main"]);
  assert.ok(!site.publisher.slots.has("early"));
});

test("an obstacle is removed from the status once the slot is no longer wanted", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("primary", { model: { default: "nowhere" } });
  await site.advance(2);
  assert.equal(site.slot("primary").status.lastError?.reason, "ModelNotFound");
  site.source.delete("primary");
  await site.advance(2);
  assert.deepEqual([site.state("primary"), site.slot("primary").status.lastError], ["offline", undefined]);
});

test("a broken edit leaves the engine running, and its place is reported", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("a", custom());
  await site.advance(5);
  site.source.break("a");
  await site.advance(10);
  assert.deepEqual([site.state("a"), ...site.deeds("a")], ["ready", "start main"]);
  assert.deepEqual(
    [site.condition("a", "Ready"), site.condition("a", "Stalled")],
    ["False/InvalidSpec", "True/InvalidSpec"],
  );
  site.source.break("new");
  await site.settle();
  assert.deepEqual(
    [site.state("new"), site.slot("new").status.lastError?.message],
    ["error", "/config/slots/new.toml:3:1: unknown key modle"],
  );
});

test("a model file that was replaced in place is reported, and loaded on restart only", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("primary", { model: { default: "tiny" } });
  await site.advance(5);
  site.setModel("tiny", { fingerprint: "2:2" });
  await site.advance(30);
  assert.equal(site.condition("primary", "ModelChanged"), "True/ModelChanged");
  assert.equal(site.condition("primary", "Ready"), "True/Loaded");
  assert.deepEqual(site.deeds("primary"), ["start main"]);
  await site.start();
  assert.equal(site.condition("primary", "ModelChanged"), "True/ModelChanged");
  await site.request("primary", "restart");
  await site.advance(5);
  assert.equal(site.condition("primary", "ModelChanged"), undefined);
  assert.deepEqual(site.deeds("primary"), ["start main", "stop main", "start main"]);
});

test("ports: a new slot that finds no free port waits for a port, and its status says so", async () => {
  await using site = new Site();
  await site.start();
  for (const name of ["a", "b", "c", "d", "e", "f", "g", "h"]) site.source.save(name, custom());
  await site.advance(5);
  site.source.save("late", custom());
  await site.advance(1);
  const { state, lastError } = site.slot("late").status;
  assert.deepEqual([state, lastError?.reason], ["error", "NoFreePort"]);
  assert.equal(site.condition("late", "Reconciling"), "True/ProgressingWithRetry");
  site.source.delete("c");
  await site.advance(10);
  assert.equal(site.state("late"), "ready");
});

test("ports: an automatic port avoids the ports that manifests fix", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  site.source.save("b", custom({ port: 8081 }));
  await site.start();
  await site.advance(2);
  assert.deepEqual([site.runtime.portOf("a"), site.runtime.portOf("b")], [8082, 8081]);
  site.source.save("c", custom({ port: 8082 }));
  await site.advance(2);
  assert.deepEqual(
    [site.state("c"), site.slot("c").status.lastError?.message],
    ["error", "port 8082 is in use by slot a until that one is stopped"],
  );
  site.source.save("d", custom({ port: 8081 }));
  await site.settle();
  assert.equal(site.condition("d", "Stalled"), "True/PortConflict");
  await site.request("a", "restart");
  await site.advance(10);
  assert.deepEqual([site.state("a"), site.state("c")], ["ready", "ready"]);
});

test("ports: a fixed port that another program has is retried until it is free", async () => {
  await using site = new Site();
  site.runtime.strangers.add(8085);
  await site.start();
  site.source.save("a", custom({ port: 8085 }));
  await site.advance(4);
  assert.equal(site.slot("a").status.lastError?.reason, "PortInUse");
  site.runtime.strangers.clear();
  await site.advance(10);
  assert.equal(site.state("a"), "ready");
});

test("a request that comes while an earlier request is being settled is handled too", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  await site.start();
  await site.advance(2);
  await site.request("a", "restart");
  let second: Promise<string> | undefined;
  site.publisher.onWrite = () => {
    // Loaded again: the next thing that the operator does is to forget the request.
    if (site.state("a") === "ready" && site.deeds("a").length === 3) second ??= site.request("a", "restart");
  };
  await site.advance(5);
  assert.equal(site.slot("a").status.handledRequests["restart"], await second);
  assert.deepEqual(site.deeds("a"), ["start main", "stop main", "start main", "stop main", "start main"]);
});

test("a restart that was asked for before the clock was set back happens once", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  await site.start();
  await site.advance(2);
  const anHourAhead = new Date(site.clock.now().getTime() + 3_600_000).toISOString();
  const token = await site.request("a", "restart", { requestedAt: anHourAhead });
  await site.advance(10);
  assert.deepEqual(site.deeds("a"), ["start main", "stop main", "start main"]);
  assert.equal(site.slot("a").status.handledRequests["restart"], token);
  assert.deepEqual(site.requests.list("a"), []);
});

test("an edit during the start of an operator is seen at once, and counts for names", async () => {
  await using site = new Site();
  site.source.save("a", custom({ aliases: ["x"] }));
  site.source.save("gone", custom({ aliases: ["z"] }));
  const list = site.runtime.list.bind(site.runtime);
  let looks = 0;
  site.runtime.list = async () => {
    looks += 1;
    // The controller asks what runs; files may change for as long as it is not told.
    if (looks === 2) {
      site.source.save("a", custom({ aliases: ["y"] }));
      site.source.save("late", custom({ aliases: ["x", "y", "z"] }));
      site.source.delete("gone");
    }
    return await list();
  };
  await site.start();
  await site.advance(2);
  assert.ok(looks >= 2);
  assert.deepEqual(
    ["a", "late"].map((name) => [site.state(name), site.slot(name).status.aliases]),
    [
      ["ready", ["y"]],
      ["ready", ["x", "z"]],
    ],
  );
});

test("an error that was overcome stays in the transitions, and leaves the status", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  await site.start();
  await site.advance(100);
  site.runtime.kill("a");
  await site.advance(5);
  assert.equal(site.slot("a").status.lastError?.reason, "Signalled");
  await site.advance(120);
  const { state, lastError, transitions } = site.slot("a").status;
  assert.deepEqual([state, lastError], ["ready", undefined]);
  assert.ok(transitions.some(({ reason }) => reason === "Signalled"));
});
