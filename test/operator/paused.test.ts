import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Preparation } from "../../src/runtimes/runtime.ts";
import { custom, Site } from "./site.ts";

const digest = `sha256:${"0".repeat(64)}`;
const image = { engine: "custom", runtime: "docker", image: "x:1", model: { default: "m" } } as const;

/** A site whose container engine answers, and fetches until the test says that the image is there. */
function fetching(): { readonly site: Site; isFetched: boolean } {
  const site = new Site();
  const record = { site, isFetched: false };
  site.runtime.prepared = async (): Promise<Preparation> => {
    if (record.isFetched) return { state: "ready", digest };
    return site.runtime.fetched.length === 0
      ? { state: "absent", message: "x:1 is not here" }
      : { state: "fetching", message: "x:1 is being fetched", progress: { bytesDone: 1 } };
  };
  site.runtime.isContainerEngineUp = true;
  return record;
}

const stepsOf = (site: Site, slot: string): string =>
  site
    .slot(slot)
    .plan.steps.map((step) => step.do)
    .join(" ");

describe("an operator that is paused", () => {
  test("changes nothing: no fetch, lease, note, warm-up, start, stop or request", async () => {
    const { site } = fetching();
    await using _site = site;
    site.runtime.manner("loads").loadMs = 60_000;
    await site.run({ runs: custom(), loads: { model: { default: "tiny" } } });
    const done = (): number[] => [site.runtime.deeds.length, site.runtime.warmUps.length];
    const before = done();
    await site.end();
    site.source.save("absent", image);
    site.source.save("runs", custom({ args: ["--more"] }));
    site.source.save("new", custom());
    site.source.save("cold", custom({ load: "onDemand" }));
    site.ask("cold", { held: 1 });
    await site.start({ isPaused: true });
    const requestedAt = new Date(site.clock.now().getTime() + 3_600_000).toISOString();
    await site.request("new", "restart", { requestedAt });
    const leased = site.ports.leased.length;
    await site.advance(90);
    assert.deepEqual([done(), site.runtime.fetched, site.lock], [before, [], {}]);
    assert.equal(site.ports.leased.length, leased);
    assert.equal(site.requests.list("new")[0]?.requestedAt, requestedAt);
    assert.deepEqual(
      ["absent", "runs", "new", "cold", "loads"].map((slot) => stepsOf(site, slot)),
      ["fetch", "drain stop start", "lease start", "lease start", "warm"],
    );
    site.source.delete("new");
    await site.settle();
    assert.equal(site.publisher.slots.has("new"), false, "it is gone, and runs nothing");
  });

  test("publishes its plan; its successor acts", async () => {
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
    await site.after(5, "a", "ready");
  });

  test("fetches no image; its successor fetches, notes and starts it", async () => {
    const record = fetching();
    await using site = record.site;
    site.source.save("a", image);
    await site.start({ isPaused: true });
    await site.advance(5);
    assert.deepEqual([site.slot("a").plan.message, site.runtime.fetched], ["paused: x:1 is not here", []]);
    await site.start();
    await site.advance(5);
    assert.deepEqual([site.runtime.fetched.length, site.state("a")], [1, "pulling"]);
    record.isFetched = true;
    await site.advance(10);
    const { state, imageDigest } = site.slot("a").status;
    assert.deepEqual([site.lock, state, imageDigest], [{ "x:1": digest }, "ready", digest]);
  });

  test("probes on: engines stay in service under an edit, a failure is published, and a crash counts once", async () => {
    await using site = await new Site().run({ a: custom(), ill: custom() });
    await site.start({ isPaused: true });
    site.source.save("a", custom({ args: ["--more"] }));
    await site.advance(30);
    assert.equal(stepsOf(site, "a"), "drain stop start");
    for (const slot of ["a", "ill"])
      assert.deepEqual([site.state(slot), site.condition(slot, "Available")], ["ready", "True/Loaded"]);
    site.runtime.kill("a");
    site.runtime.manner("ill").probe = "hanging";
    await site.advance(30);
    assert.deepEqual([site.state("a"), site.slot("a").status.failures], ["error", 1]);
    assert.equal(site.slot("ill").status.lastError?.reason, "Unhealthy");
    assert.deepEqual([site.deeds("a"), site.deeds("ill")], [["start main"], ["start main"]]);
  });
});

test("a paused operator that finds a loading engine ended after an edit publishes no move that the table forbids", async () => {
  await using site = new Site();
  site.runtime.manner("a").loadMs = 600_000;
  await site.run({ a: custom() }, 2);
  await site.end();
  site.source.save("a", custom({ args: ["x"] }));
  site.runtime.kill("a");
  await site.start({ isPaused: true });
  await site.advance(5);
  assert.equal(site.state("a"), "error");
});
