import assert from "node:assert/strict";
import { test } from "node:test";
import type { Preparation } from "../../src/runtimes/runtime.ts";
import { custom, Site } from "./site.ts";

const digest = `sha256:${"0".repeat(64)}`;
const image = { engine: "custom", runtime: "docker", image: "x:1", model: { default: "m" } } as const;

/** A site whose container engine answers, with everything that an operator could change written down. */
function recorded(): { readonly site: Site; isFetched: boolean } {
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

test("an operator that is paused changes nothing: no fetch, lease, note, warm-up, start, stop or request", async () => {
  const { site } = recorded();
  await using _site = site;
  site.source.save("runs", custom());
  site.source.save("loads", { model: { default: "tiny" } });
  site.runtime.manner("loads").loadMs = 60_000;
  await site.start();
  await site.advance(5);
  const before = { deeds: site.runtime.deeds.length, warmUps: site.runtime.warmUps.length };
  await site.end();
  site.source.save("absent", image);
  site.source.save("runs", custom({ args: ["--more"] }));
  site.source.save("new", custom());
  site.source.save("cold", custom({ load: "onDemand" }));
  site.demand.set("cold", { held: 1, lastRequestAt: site.clock.now().toISOString() });
  await site.start({ isPaused: true });
  const requestedAt = new Date(site.clock.now().getTime() + 3_600_000).toISOString();
  await site.request("new", "restart", { requestedAt });
  const leased = site.ports.leased.length;
  await site.advance(90);
  const after = { deeds: site.runtime.deeds.length, warmUps: site.runtime.warmUps.length };
  assert.deepEqual(after, before);
  assert.deepEqual([site.runtime.fetched, site.lock, site.ports.leased.length - leased], [[], {}, 0]);
  assert.deepEqual(
    site.requests.list("new").map((request) => request.requestedAt),
    [requestedAt],
  );
  const plans = ["absent", "runs", "new", "cold", "loads"].map((slot) =>
    site
      .slot(slot)
      .plan.steps.map((step) => step.do)
      .join(" "),
  );
  assert.deepEqual(plans, ["fetch", "drain stop start", "lease start", "lease start", "warm"]);
});

test("it continues to probe, which only reads: adopted engines stay in service, and a failure is published", async () => {
  await using site = new Site();
  site.source.save("a", custom());
  await site.start();
  await site.advance(5);
  await site.start({ isPaused: true });
  await site.advance(30);
  assert.deepEqual([site.state("a"), site.condition("a", "Ready")], ["ready", "True/Loaded"]);
  site.runtime.manner("a").probe = "hanging";
  await site.advance(30);
  assert.deepEqual([site.slot("a").status.lastError?.reason, ...site.deeds("a")], ["Unhealthy", "start main"]);
});

test("its successor carries out its plan", async () => {
  const record = recorded();
  const { site } = record;
  await using _site = site;
  site.source.save("a", image);
  await site.start({ isPaused: true });
  await site.advance(5);
  assert.deepEqual([site.slot("a").plan.message, site.runtime.fetched], ["paused: x:1 is not here", []]);
  await site.start();
  await site.advance(5);
  assert.deepEqual([site.runtime.fetched.length, site.state("a")], [1, "pulling"]);
  record.isFetched = true;
  await site.advance(10);
  assert.deepEqual(
    [site.lock, site.state("a"), site.slot("a").status.imageDigest],
    [{ "x:1": digest }, "ready", digest],
  );
});
