import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { custom, Site } from "./site.ts";

const primary = { model: { default: "tiny" } };
const loadedAgain = ["start main", "stop main", "start main"];
const wholeLoad = ["starting", "warming", "ready"];

describe("a slot that loads", () => {
  test("publishes the times of the load before, of the same model", async () => {
    await using site = new Site();
    site.runtime.manner("a").loadMs = 300;
    await site.run({ a: custom() }, 2);
    const { startSeconds = 0, warmSeconds = 0 } = site.slot("a").status.lastLoad ?? {};
    await site.request("a", "restart");
    await site.advance(2);
    assert.deepEqual(site.slot("a").status.lastLoad?.previous, { startSeconds, warmSeconds });
    await site.request("a", "swap-model", { model: "tiny", specModel: "m" });
    await site.advance(2);
    assert.deepEqual([site.slot("a").status.model.ref, site.slot("a").status.lastLoad?.previous], ["tiny", undefined]);
  });

  test("goes from offline to ready, each state with its conditions", async () => {
    await using site = new Site();
    site.runtime.manner("a").loadMs = 300;
    await site.run({ a: custom() }, 0);
    assert.deepEqual([site.state("a"), site.condition("a", "Available")], ["starting", "False/Starting"]);
    await site.advance(0.1);
    assert.deepEqual([site.state("a"), site.condition("a", "Available")], ["warming", "False/Warming"]);
    await site.advance(1);
    assert.deepEqual([site.state("a"), site.condition("a", "Ready")], ["ready", "True/Loaded"]);
    assert.deepEqual(site.states("a"), wholeLoad);
    const { endpoint, port, lastLoad, restarts, model } = site.slot("a").status;
    assert.deepEqual({ endpoint, port, restarts }, { endpoint: "http://127.0.0.1:8081", port: 8081, restarts: 0 });
    assert.deepEqual(model, { ref: "m", origin: "spec", served: "m" });
    assert.ok((lastLoad?.startSeconds ?? 0) > 0 && (lastLoad?.warmSeconds ?? 0) > 0, JSON.stringify(lastLoad));
  });
});

describe("an edit", () => {
  test("of which the source counts the specs is published with that generation", async () => {
    await using site = new Site();
    const generations = (): unknown[] => [site.slot("a").generation, site.slot("a").status.observedGeneration];
    site.source.generation = 41;
    await site.run({ a: custom() });
    assert.deepEqual(generations(), [41, 41]);
    site.source.generation = 44;
    site.source.save("a", custom({ idleSeconds: 5 }));
    await site.settle();
    assert.deepEqual(generations(), [44, 44]);
  });

  test("that does not change the engine never restarts it, and is logged once", async () => {
    await using site = await new Site().run({ a: custom() });
    site.source.save("a", custom({ idleSeconds: 5 }), { team: "blue" });
    await site.settle();
    site.source.save("a", custom({ aliases: ["gpt-4"], concurrency: { max: 3, queue: 1 } }));
    await site.settle();
    site.source.save("a", custom({ probe: { intervalSeconds: 2 }, stopSeconds: 3 }));
    await site.advance(20);
    assert.deepEqual(site.deeds("a"), ["start main"]);
    assert.deepEqual([site.slot("a").generation, site.slot("a").status.observedGeneration], [4, 4]);
    assert.equal(site.log.filter((line) => line.includes("a: ready: the edit is accepted; ")).length, 3);
  });

  test("of the launch line drains, stops and starts the engine again", async () => {
    await using site = await new Site().run({ a: custom() });
    site.demand.set("a", { inFlight: 1 });
    site.source.save("a", custom({ args: ["--more"] }));
    await site.settle();
    assert.deepEqual([site.state("a"), ...site.deeds("a")], ["unloading", "start main"]);
    site.demand.set("a", { inFlight: 0 });
    await site.advance(2);
    assert.deepEqual(site.deeds("a"), loadedAgain);
    assert.deepEqual(site.states("a"), [...wholeLoad, "unloading", ...wholeLoad]);
  });

  test("during the start of an operator is seen at once, and counts for names", async () => {
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
    const seen = (name: string): unknown[] => [site.state(name), ...site.slot(name).status.aliases];
    assert.deepEqual(
      [seen("a"), seen("late")],
      [
        ["ready", "y"],
        ["ready", "x", "z"],
      ],
    );
  });
});

describe("an engine that fails", () => {
  for (const [what, act] of [
    ["an edit", async (site: Site) => site.source.save("a", custom({ args: ["--mended"] }))],
    ["a restart request", async (site: Site) => site.request("a", "restart")],
  ] as const) {
    test(`again and again waits longer and longer for its next start; ${what} begins anew`, async () => {
      await using site = new Site();
      site.runtime.manner("a").crashAfterMs = 10;
      await site.run({ a: custom() }, 0.5);
      const { state, failures, lastError, nextRetryAt } = site.slot("a").status;
      assert.deepEqual([state, failures, lastError?.reason], ["error", 1, "Exited"]);
      assert.equal(nextRetryAt, "2026-01-01T00:00:01.010Z");
      assert.equal(site.condition("a", "Reconciling"), "True/ProgressingWithRetry");
      await site.advance(15);
      const starts = site.runtime.deeds.filter(({ did }) => did === "start").map(({ at }) => at.getTime());
      assert.deepEqual(
        starts.slice(1).map((at, index) => at - (starts[index] ?? 0)),
        [1010, 2010, 4010, 8010],
      );
      assert.deepEqual([site.slot("a").status.restarts, site.slot("a").status.failures], [4, 5]);
      site.runtime.manner("a").crashAfterMs = undefined;
      const token = await act(site);
      await site.advance(1);
      assert.deepEqual([site.state("a"), site.slot("a").status.failures], ["ready", 0]);
      assert.deepEqual([site.slot("a").status.handledRequests["restart"], site.requests.list("a")], [token, []]);
      site.runtime.kill("a");
      await site.advance(3);
      assert.deepEqual([site.state("a"), site.slot("a").status.failures], ["ready", 1]);
    });
  }

  test("after a minute of ready starts again at once; the next end backs off, and what was overcome is history", async () => {
    await using site = await new Site().run({ a: custom() }, 90);
    site.runtime.kill("a");
    await site.settle();
    assert.deepEqual(site.states("a").slice(-2), ["error", "starting"]);
    assert.equal(site.slot("a").status.lastError?.message, "killed by SIGKILL");
    await site.advance(1);
    assert.deepEqual([site.state("a"), site.slot("a").status.restarts], ["ready", 1]);
    site.runtime.kill("a");
    await site.settle();
    assert.equal(site.state("a"), "error");
    assert.notEqual(site.slot("a").status.nextRetryAt, undefined);
    await site.advance(3);
    assert.deepEqual([site.state("a"), site.slot("a").status.lastError?.reason], ["ready", "Signalled"]);
    await site.advance(120);
    const { failures, lastError, transitions } = site.slot("a").status;
    assert.deepEqual([failures, lastError], [0, undefined]);
    assert.ok(transitions.some(({ reason }) => reason === "Signalled"));
  });
});

describe("a slot whose manifest is deleted", () => {
  test("within its reconcile starts no engine", async () => {
    await using site = new Site();
    const { prepared } = site.contexts;
    site.contexts = {
      ...site.contexts,
      prepared: async (workload, ref) => {
        site.source.delete(workload.slot);
        return await prepared(workload, ref);
      },
    };
    await site.run({ a: custom() });
    assert.deepEqual([site.deeds("a"), site.publisher.slots.has("a")], [[], false]);
  });

  test("is drained, stopped and forgotten, never called invalid", async () => {
    await using site = await new Site().run({ coder: custom({ stopSeconds: 5 }) });
    await site.request("coder", "swap-model", { model: "big", specModel: "m" });
    await site.advance(5);
    site.demand.set("coder", { inFlight: 1 });
    site.source.delete("coder");
    await site.advance(1);
    const { status, plan, spec } = site.slot("coder");
    assert.deepEqual(
      [status.state, plan.reason, status.lastError, spec.stopSeconds],
      ["unloading", "Deleted", undefined, 5],
    );
    await site.advance(5);
    assert.equal(site.publisher.slots.has("coder"), false);
    assert.deepEqual([...site.runtime.running("coder"), ...site.requests.list("coder")], []);
    assert.ok(!site.log.some((line) => line.includes("InvalidSpec")));
  });
});

describe("a Model", () => {
  test("that arrives after its slot is loaded at once; until then the slot says that it is missing", async () => {
    await using site = await new Site().run({});
    site.source.save("primary", { model: { default: "late" } });
    await site.settle();
    assert.equal(site.condition("primary", "Stalled"), "True/ModelNotFound");
    site.setModel("late");
    await site.settle();
    assert.deepEqual([site.deeds("primary"), site.state("primary")], [["start main"], "starting"]);
    await site.after(10, "primary", "ready", ["start main"]);
    assert.equal(site.condition("primary", "Stalled"), undefined);
  });

  test("that is missing when the operator starts is told of at once", async () => {
    await using site = await new Site().run({ mine: { model: { default: "nowhere" } } }, 0);
    assert.equal(site.slot("mine").status.lastError?.reason, "ModelNotFound");
  });

  test("that has not come yet holds up no other slot of its group", async () => {
    await using site = new Site();
    site.source.group("gpu", { budget: { memoryBytes: 2 ** 30 } });
    await site.start();
    site.source.save("early", { model: { default: "late" }, group: "gpu" });
    await site.settle();
    site.source.save("other", custom({ group: "gpu" }));
    await site.advance(0.3);
    assert.deepEqual([site.deeds("other"), site.state("early")], [["start main"], "error"]);
  });

  test("whose file was replaced in place is reported, and loaded on restart only", async () => {
    await using site = await new Site().run({ primary });
    site.setModel("tiny", { fingerprint: "2:2" });
    await site.advance(30);
    const seen = (): unknown[] => [site.condition("primary", "Ready"), site.condition("primary", "ModelChanged")];
    assert.deepEqual([...seen(), ...site.deeds("primary")], ["True/Loaded", "True/ModelChanged", "start main"]);
    await site.start();
    assert.deepEqual(seen(), ["True/Loaded", "True/ModelChanged"]);
    await site.request("primary", "restart");
    await site.advance(5);
    assert.deepEqual([...seen(), ...site.deeds("primary")], ["True/Loaded", undefined, ...loadedAgain]);
  });
});

describe("a broken manifest", () => {
  /** How often the log told so of `problem`: as a warning, and as mended. */
  const told = (site: Site, problem: string): number[] =>
    [40, 30].map(
      (level) => site.log.filter((line) => line.includes(`"level":${level}`) && line.includes(problem)).length,
    );

  test("leaves its engine running, and is reported once with its place, and once when it is repaired", async () => {
    await using site = await new Site().run({ a: custom() });
    const problem = "a.toml:3:1: unknown key modle";
    site.source.break("a");
    await site.advance(200);
    assert.deepEqual([site.state("a"), ...site.deeds("a"), ...told(site, problem)], ["ready", "start main", 1, 0]);
    assert.deepEqual(
      [site.condition("a", "Ready"), site.condition("a", "Stalled")],
      ["False/InvalidSpec", "True/InvalidSpec"],
    );
    site.source.save("a", custom());
    await site.advance(200);
    assert.deepEqual(told(site, problem), [1, 1]);
    site.source.delete("a");
    await site.advance(200);
    assert.deepEqual(told(site, "its manifest is gone"), [0, 1]);
  });

  for (const kind of ["Model", "Upstream"] as const) {
    test(`of kind ${kind} is reported once with its place, and once when it is gone`, async () => {
      await using site = await new Site().run({});
      site.source.breakOther(kind, "x");
      await site.advance(200);
      assert.deepEqual(told(site, "x.toml:2:1: unknown key"), [1, 0]);
      site.source.deleteOther(kind, "x");
      await site.advance(1);
      assert.deepEqual(told(site, "x.toml:2:1: unknown key"), [1, 1]);
    });
  }
});

describe("a restart request", () => {
  test("that comes while an earlier request is being settled is handled too", async () => {
    await using site = await new Site().run({ a: custom() });
    await site.request("a", "restart");
    let second: Promise<string> | undefined;
    site.publisher.onWrite = () => {
      // Loaded again: the next thing that the operator does is to forget the request.
      if (site.state("a") === "ready" && site.deeds("a").length === 3) second ??= site.request("a", "restart");
    };
    await site.advance(5);
    assert.equal(site.slot("a").status.handledRequests["restart"], await second);
    assert.deepEqual(site.deeds("a"), [...loadedAgain, "stop main", "start main"]);
  });

  test("from before the clock was set back is carried out once", async () => {
    await using site = await new Site().run({ a: custom() });
    const anHourAhead = new Date(site.clock.now().getTime() + 3_600_000).toISOString();
    const token = await site.request("a", "restart", { requestedAt: anHourAhead });
    await site.advance(10);
    assert.deepEqual([site.deeds("a"), site.requests.list("a")], [loadedAgain, []]);
    assert.equal(site.slot("a").status.handledRequests["restart"], token);
  });
});
