import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import { custom, Site } from "./site.ts";

describe("on demand", () => {
  const cold = custom({ load: "onDemand", idleSeconds: 30 });

  test("a held request loads the slot; stale demand unloads it when its idle time is over", async () => {
    await using site = new Site();
    await site.start();
    site.source.save("cold", cold);
    await site.advance(60);
    assert.deepEqual([site.state("cold"), site.condition("cold", "Ready")], ["offline", "True/ScaledToZero"]);
    site.demand.set("cold", { held: 1, lastRequestAt: site.clock.now().toISOString() });
    await site.advance(2);
    assert.equal(site.state("cold"), "ready");
    site.demand.set("cold", { held: 0, inFlight: 0, lastRequestAt: site.clock.now().toISOString() });
    await site.advance(29);
    assert.equal(site.state("cold"), "ready");
    await site.advance(3);
    assert.deepEqual([site.state("cold"), ...site.deeds("cold")], ["offline", "start main", "stop main"]);
  });

  test("an obstacle to loading is shown before any request, and is gone once it is mended", async () => {
    await using site = new Site();
    await site.start();
    site.source.save("first", custom({ port: 8085 }));
    site.source.save("second", { ...cold, port: 8085 });
    site.source.save("third", { load: "onDemand", model: { default: "absent" } });
    await site.advance(1);
    const shown = (slot: string): unknown[] => [site.state(slot), site.condition(slot, "Stalled")];
    assert.deepEqual(shown("second"), ["error", "True/PortConflict"]);
    assert.deepEqual(shown("third"), ["error", "True/ModelNotFound"]);
    // Asking says the same.
    site.demand.set("third", { held: 1, lastRequestAt: site.clock.now().toISOString() });
    await site.advance(1);
    assert.deepEqual(shown("third"), ["error", "True/ModelNotFound"]);
    site.demand.forget("third");
    site.source.save("first", custom({ port: 8086 }));
    site.setModel("absent");
    await site.advance(1);
    assert.deepEqual(shown("second"), ["offline", undefined]);
    assert.equal(site.condition("second", "Ready"), "True/ScaledToZero");
    assert.deepEqual([site.deeds("second"), site.condition("third", "Stalled")], [[], undefined]);
  });

  test("demand does not outlive its slot", async () => {
    await using site = new Site();
    await site.start();
    site.source.save("cold", cold);
    site.demand.set("cold", { lastRequestAt: site.clock.now().toISOString() });
    await site.advance(2);
    assert.equal(site.state("cold"), "ready");
    site.source.delete("cold");
    await site.advance(2);
    assert.equal(site.publisher.slots.has("cold"), false);
    // The gateway, and its memory of the request, go on.
    site.source.save("cold", cold);
    await site.advance(2);
    assert.deepEqual([site.state("cold"), ...site.deeds("cold")], ["offline", "start main", "stop main"]);
    site.demand.set("cold", { lastRequestAt: site.clock.now().toISOString() });
    await site.advance(2);
    assert.equal(site.state("cold"), "ready");
  });

  test("the slot stays loaded for its idle time when its gateway ends, with a successor or without", async () => {
    await using site = new Site();
    await site.start();
    site.source.save("cold", cold);
    site.demand.set("cold", { inFlight: 1, lastRequestAt: site.clock.now().toISOString() });
    await site.advance(60);
    site.demand.forget("cold");
    await site.advance(20);
    assert.deepEqual([site.state("cold"), ...site.deeds("cold")], ["ready", "start main"]);
    site.demand.set("cold", { lastRequestAt: site.clock.now().toISOString() });
    await site.advance(1);
    site.demand.forget("cold");
    site.demand.isGone = true;
    await site.advance(10);
    await site.start();
    await site.advance(15);
    assert.deepEqual([site.state("cold"), ...site.deeds("cold")], ["ready", "start main"]);
    await site.advance(10);
    assert.deepEqual([site.state("cold"), ...site.deeds("cold")], ["offline", "start main", "stop main"]);
    assert.equal(site.slot("cold").status.idleSince, undefined);
  });

  test("a request in flight keeps the slot loaded however long it takes", async () => {
    await using site = new Site();
    await site.start();
    site.source.save("cold", cold);
    site.demand.set("cold", { inFlight: 1, lastRequestAt: site.clock.now().toISOString() });
    await site.advance(300);
    assert.deepEqual([site.state("cold"), ...site.deeds("cold")], ["ready", "start main"]);
  });

  test("an unload counts against earlier demand; the next request loads the slot again", async () => {
    await using site = new Site();
    await site.start();
    site.source.save("cold", cold);
    site.demand.set("cold", { lastRequestAt: site.clock.now().toISOString() });
    await site.advance(5);
    assert.equal(site.state("cold"), "ready");
    await site.request("cold", "unload");
    await site.advance(5);
    assert.equal(site.state("cold"), "offline");
    site.demand.set("cold", { held: 1, lastRequestAt: site.clock.now().toISOString() });
    await site.advance(2);
    assert.equal(site.state("cold"), "ready");
  });

  test("an unload ends one engine, and not the next engine, which held requests get", async () => {
    await using site = new Site();
    await site.start();
    site.source.save("cold", cold);
    site.demand.set("cold", { held: 1, lastRequestAt: site.clock.now().toISOString() });
    await site.advance(0.03);
    await site.request("cold", "unload");
    await site.advance(5);
    assert.deepEqual([site.state("cold"), ...site.deeds("cold")], ["ready", "start main", "stop main", "start main"]);
    site.demand.set("cold", { held: 0, inFlight: 1 });
    await site.advance(60);
    assert.equal(site.state("cold"), "ready");
    site.demand.set("cold", { inFlight: 0 });
    await site.advance(15);
    assert.equal(site.state("cold"), "ready");
    await site.advance(20);
    assert.equal(site.state("cold"), "offline");
  });

  test("a load request counts as use for the idle time", async () => {
    await using site = new Site();
    await site.start();
    site.source.save("cold", cold);
    await site.request("cold", "load");
    await site.advance(2);
    assert.equal(site.state("cold"), "ready");
    await site.advance(40);
    assert.deepEqual([site.state("cold"), ...site.requests.list("cold")], ["offline"]);
  });

  test("a slot that loads longer than its idle time becomes ready, and is idle from then on", async () => {
    await using site = new Site();
    site.runtime.manner("cold").startMs = 50_000;
    await site.start();
    site.source.save("cold", cold);
    await site.request("cold", "load");
    await site.advance(45);
    assert.equal(site.state("cold"), "starting");
    await site.advance(20);
    assert.equal(site.state("cold"), "ready");
    await site.advance(30);
    assert.deepEqual([site.state("cold"), ...site.deeds("cold")], ["offline", "start main", "stop main"]);
  });

  test("a slot that failed and is unloaded is tried again by the next request", async () => {
    await using site = new Site();
    site.runtime.manner("cold").crashAfterMs = 10;
    await site.start();
    site.source.save("cold", cold);
    site.demand.set("cold", { lastRequestAt: site.clock.now().toISOString() });
    await site.advance(120);
    assert.equal(site.state("cold"), "offline");
    site.runtime.manner("cold").crashAfterMs = undefined;
    site.demand.set("cold", { held: 1, lastRequestAt: site.clock.now().toISOString() });
    await site.advance(2);
    assert.equal(site.state("cold"), "ready");
  });
});

describe("a manifest that breaks", () => {
  test("is reported once with its place, and once when it is repaired", async () => {
    await using site = new Site();
    site.source.save("a", custom());
    await site.start();
    await site.advance(5);
    const told = (level: number): string[] =>
      site.log.filter((line) => line.includes(`"level":${level}`) && line.includes("a.toml:3:1: unknown key modle"));
    site.source.break("a");
    await site.advance(200);
    assert.deepEqual([told(40).length, told(30).length], [1, 0]);
    site.source.save("a", custom());
    await site.advance(200);
    assert.deepEqual([told(40).length, told(30).length], [1, 1]);
    site.source.delete("a");
    await site.advance(200);
    assert.equal(site.log.filter((line) => line.includes("its manifest is gone")).length, 1);
  });
});

for (const kind of ["Model", "Upstream"] as const) {
  test(`a broken manifest of kind ${kind} is reported once with its place, and once when it is gone`, async () => {
    await using site = new Site();
    await site.start();
    const told = (level: number): number =>
      site.log.filter((line) => line.includes(`"level":${level}`) && line.includes("x.toml:2:1: unknown key")).length;
    site.source.breakOther(kind, "x");
    await site.advance(200);
    assert.deepEqual([told(40), told(30)], [1, 0]);
    site.source.deleteOther(kind, "x");
    await site.advance(1);
    assert.deepEqual([told(40), told(30)], [1, 1]);
  });
}

describe("threads of a llama engine", () => {
  const llama = (more: SlotSpecInput = {}): SlotSpecInput => ({ model: { default: "tiny" }, ...more });
  const gpu = (model: SlotSpecInput["model"]): SlotSpecInput =>
    llama({ backend: "cuda", model: { default: "tiny", ...model } });
  const cases: readonly (readonly [who: string, others: Readonly<Record<string, SlotSpecInput>>, threads: string])[] = [
    ["one process has all cores but one", {}, "3"],
    [
      "seven on-demand slots that are not loaded take nothing",
      Object.fromEntries(["b", "c", "d", "e", "f", "g", "h"].map((name) => [name, llama({ load: "onDemand" })])),
      "3",
    ],
    ["a slot that is always loaded has its share", { b: llama() }, "1"],
    ["a second process has its share", { b: llama({ model: { default: "m", rerank: "ranker" } }) }, "1"],
    ["a slot whose layers are all on a GPU takes nothing", { b: llama({ backend: "cuda" }) }, "3"],
    ["one whose layers may move to the host has its share", { b: gpu({ spill: "allow" }) }, "1"],
    ["one that has a part of its layers there has its share", { b: gpu({ gpuLayers: 20 }) }, "1"],
    [
      "who is disabled, or no llama.cpp, has none",
      { b: llama({ enabled: false }), c: llama({ command: ["serve", "$(PORT)"] }), d: custom({ load: "onDemand" }) },
      "3",
    ],
  ];
  for (const [who, others, threads] of cases) {
    test(who, async () => {
      await using site = new Site();
      for (const [name, spec] of Object.entries(others)) site.source.save(name, spec);
      site.source.save("a", llama());
      await site.start();
      await site.advance(5);
      const { decisions } = site.slot("a").status;
      assert.equal(decisions["threads"]?.value, threads);
      assert.match(
        decisions["threads"].reason,
        /^4 cores, less one, (shared by \d|which no other process of llama.cpp shares)/,
      );
    });
  }

  test("an on-demand slot that is loaded counts at the next load of another slot, and is not restarted for it", async () => {
    await using site = new Site();
    site.source.save("a", llama());
    site.source.save("b", llama({ load: "onDemand" }));
    await site.start();
    await site.advance(5);
    const threads = (slot: string): string | undefined => site.slot(slot).status.decisions["threads"]?.value;
    assert.equal(threads("a"), "3");
    await site.request("b", "load");
    await site.advance(5);
    assert.deepEqual(
      [site.state("b"), threads("b"), threads("a"), site.deeds("a")],
      ["ready", "1", "3", ["start main"]],
    );
    await site.request("a", "restart");
    await site.advance(60);
    assert.deepEqual([site.state("a"), threads("a")], ["ready", "1"]);
  });
});

describe("unloaded by request", () => {
  for (const [what, act] of [
    ["a load request", (site: Site) => site.request("a", "load")],
    ["a restart request", (site: Site) => site.request("a", "restart")],
    ["an edit", async (site: Site) => site.source.save("a", custom({ idleSeconds: 5 }))],
  ] as const) {
    test(`an always-loaded slot stays so until ${what}`, async () => {
      await using site = new Site();
      await site.start();
      site.source.save("a", custom());
      await site.advance(5);
      await site.request("a", "unload");
      await site.advance(30);
      await site.start();
      assert.deepEqual([site.state("a"), site.condition("a", "Available")], ["offline", "False/Unloaded"]);
      await act(site);
      await site.advance(5);
      assert.deepEqual([site.state("a"), ...site.requests.list("a")], ["ready"]);
    });
  }
});

describe("a swap", () => {
  test("holds over edits of other fields and operator restarts, until the manifest names another model", async () => {
    await using site = new Site();
    await site.start();
    site.source.save("a", custom());
    await site.advance(5);
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
});

describe("two processes", () => {
  const embed = { model: { default: "tiny", rerank: "ranker" } };

  test("are a single slot; a process that ends alone is restarted alone", async () => {
    await using site = new Site();
    site.source.save("embed", embed);
    await site.start();
    await site.advance(5);
    assert.deepEqual([site.state("embed"), ...site.deeds("embed")], ["ready", "start main", "start rerank"]);
    site.runtime.kill("embed", "rerank");
    await site.settle();
    assert.deepEqual([site.state("embed"), site.condition("embed", "Available")], ["ready", "True/Loaded"]);
    const available = site.slot("embed").status.conditions.find(({ type }) => type === "Available");
    assert.equal(available?.message, "the loaded engine serves requests", "not what the other process has");
    assert.deepEqual(
      site.slot("embed").status.processes.map(({ role, isReady }) => `${role} ${isReady}`),
      ["main true"],
    );
    await site.advance(5);
    assert.deepEqual([site.state("embed"), site.condition("embed", "Ready")], ["ready", "True/Loaded"]);
    assert.deepEqual(site.deeds("embed").slice(2), ["clear rerank", "start rerank"]);
    site.runtime.kill("embed", "main");
    await site.settle();
    assert.equal(site.state("embed"), "error");
    await site.advance(5);
    assert.equal(site.state("embed"), "ready");
    assert.deepEqual(site.deeds("embed").slice(4), ["clear main", "start main"]);
  });

  test("a second process that crashes repeatedly backs off beside a steady main process", async () => {
    await using site = new Site();
    site.source.save("embed", embed);
    await site.start();
    await site.advance(100);
    const before = site.deeds("embed").length;
    const ends = site.clock.now().getTime() + 60_000;
    while (site.clock.now().getTime() < ends) {
      site.runtime.kill("embed", "rerank");
      await site.advance(0.5);
    }
    assert.deepEqual([site.state("embed"), site.condition("embed", "Available")], ["ready", "True/Loaded"]);
    const starts = site
      .deeds("embed")
      .slice(before)
      .filter((deed) => deed === "start rerank").length;
    assert.ok(starts <= 8, `started ${starts} times in a minute`);
    assert.ok(!site.deeds("embed").slice(before).includes("stop main"));
  });

  test("a change of the second process's model leaves the first process serving", async () => {
    await using site = new Site();
    site.source.save("embed", embed);
    await site.start();
    await site.advance(5);
    site.demand.set("embed", { inFlight: 1 });
    site.source.save("embed", { model: { default: "tiny", rerank: "big" } });
    await site.settle();
    const ready = (): string[] => site.slot("embed").status.processes.map(({ role, isReady }) => `${role} ${isReady}`);
    assert.deepEqual([site.state("embed"), ...ready()], ["ready", "main true", "rerank false"]);
    assert.equal(site.condition("embed", "Reconciling"), "True/Changed");
    site.demand.set("embed", { inFlight: 0 });
    await site.advance(5);
    assert.deepEqual(site.deeds("embed"), ["start main", "start rerank", "stop rerank", "start rerank"]);
    assert.deepEqual([site.condition("embed", "Ready"), ...ready()], ["True/Loaded", "main true", "rerank true"]);
  });

  test("a second process that starts late has its own time for its first answer", async () => {
    await using site = new Site();
    site.source.save("embed", { ...embed, probe: { startupSeconds: 60 } });
    await site.start();
    await site.advance(200);
    site.runtime.kill("embed", "rerank");
    await site.advance(5);
    assert.equal(site.condition("embed", "Ready"), "True/Loaded");
    const port = site.runtime.portOf("embed", "rerank");
    const last = site.runtime.warmUps.findLast((warmUp) => warmUp.port === port);
    assert.ok(last !== undefined && last.timeoutMs > 50_000, JSON.stringify(last));
  });

  test("a process that is no longer declared is stopped at once where no gateway runs", async () => {
    await using site = new Site();
    site.demand.isGone = true;
    site.source.save("embed", embed);
    await site.start();
    await site.advance(5);
    site.source.save("embed", { model: { default: "tiny" } });
    await site.advance(0.5);
    assert.deepEqual(site.deeds("embed"), ["start main", "start rerank", "stop rerank"]);
  });

  test("a process that is no longer declared is stopped, and the other continues", async () => {
    await using site = new Site();
    site.source.save("embed", embed);
    await site.start();
    await site.advance(5);
    site.source.save("embed", { model: { default: "tiny" } });
    await site.advance(5);
    assert.deepEqual(site.deeds("embed"), ["start main", "start rerank", "stop rerank"]);
    assert.deepEqual(site.states("embed"), ["starting", "warming", "ready"]);
  });
});

describe("paused", () => {
  test("publishes its plan, and starts nothing; its successor acts", async () => {
    await using site = new Site();
    site.source.save("a", custom());
    await site.start({ isPaused: true });
    await site.advance(60);
    assert.deepEqual(site.slot("a").plan, {
      reason: "Paused",
      message: "paused: it is always loaded",
      steps: [
        { do: "lease", ports: [{ role: "main", port: 8081 }], reason: "8081 is free" },
        { do: "start", role: "main", port: 8081, command: "serve 8081", reason: "it is always loaded" },
      ],
    });
    assert.deepEqual(
      ["Ready", "Available", "Reconciling"].map((type) => site.condition("a", type)),
      ["Unknown/Paused", "False/Paused", "True/Paused"],
    );
    assert.deepEqual([site.state("a"), ...site.deeds("a")], ["offline"]);
    await site.start();
    await site.advance(5);
    assert.equal(site.state("a"), "ready");
  });

  test("leaves running engines, shows the effect of an edit, and counts a crash once", async () => {
    await using site = new Site();
    site.source.save("a", custom());
    await site.start();
    await site.advance(5);
    await site.start({ isPaused: true });
    assert.deepEqual([site.state("a"), site.condition("a", "Ready")], ["ready", "True/Loaded"]);
    site.source.save("a", custom({ args: ["--more"] }));
    await site.advance(10);
    assert.deepEqual(
      site.slot("a").plan.steps.map((step) => step.do),
      ["drain", "stop", "start"],
    );
    assert.deepEqual([site.state("a"), site.condition("a", "Available")], ["ready", "True/Loaded"]);
    site.runtime.kill("a");
    await site.advance(30);
    assert.deepEqual([site.state("a"), site.slot("a").status.failures], ["error", 1]);
    assert.deepEqual(site.deeds("a"), ["start main"]);
  });

  test("forgets a slot that is gone and runs nothing", async () => {
    await using site = new Site();
    site.source.save("a", custom());
    await site.start({ isPaused: true });
    site.source.delete("a");
    await site.settle();
    assert.equal(site.publisher.slots.has("a"), false);
  });
});

describe("an operator's successor", () => {
  test("adopts what runs without a change of state, and starts nothing anew", async () => {
    await using site = new Site();
    site.source.save("a", custom());
    site.source.save("primary", { model: { default: "tiny" } });
    await site.start();
    await site.advance(5);
    const before = [site.slot("a").revision, site.slot("primary").revision];
    await site.start();
    await site.advance(20);
    assert.deepEqual([site.slot("a").revision, site.slot("primary").revision], before);
    assert.deepEqual([...site.deeds("a"), ...site.deeds("primary")], ["start main", "start main"]);
  });

  test("asks an engine that does not answer to prove itself again", async () => {
    await using site = new Site();
    site.source.save("a", custom());
    await site.start();
    await site.advance(5);
    site.runtime.manner("a").probe = "failing";
    await site.start();
    assert.equal(site.state("a"), "warming");
    site.runtime.manner("a").probe = "healthy";
    await site.advance(2);
    assert.deepEqual([site.state("a"), ...site.deeds("a")], ["ready", "start main"]);
  });

  test("stops an engine that nothing declares", async () => {
    await using site = new Site();
    site.source.save("a", custom());
    await site.start();
    await site.advance(5);
    await site.controller[Symbol.asyncDispose]();
    site.source.delete("a");
    site.publisher.slots.delete("a");
    await site.start();
    await site.advance(40);
    assert.deepEqual([...site.runtime.running("a"), site.publisher.slots.has("a")], [false]);
  });
});

test("a pulling slot that an earlier operator published is started in the end", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  await site.start({ isPaused: true });
  const slot = site.slot("a");
  site.publisher.slots.set("a", { ...slot, status: { ...slot.status, state: "pulling" } });
  await site.start();
  await site.advance(5);
  assert.equal(site.state("a"), "ready");
});
