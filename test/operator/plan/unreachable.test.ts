import assert from "node:assert/strict";
import { test } from "node:test";
import { findCondition } from "../../../src/api/conditions.ts";
import type { Preparation } from "../../../src/runtimes/runtime.ts";
import { RuntimeUnavailable } from "../../../src/runtimes/runtime-unavailable.ts";
import { later } from "../fixture.ts";
import { custom, Site } from "../site.ts";

/** A slot that would be a container; what its runtime double starts is none, which nothing here depends on. */
async function containerSite(preparation: () => Promise<Preparation>): Promise<Site> {
  const site = new Site();
  site.runtime.isContainerEngineUp = true;
  site.runtime.prepared = preparation;
  return await site.run({ a: custom({ image: "example.test/engine:1", runtime: "docker" }) }, 0);
}

const next = (site: Site): string | undefined => site.slot("a").status.nextRetryAt;

test("a runtime that stops answering while it fetches an image is published, with a time for the next check", async () => {
  await using site = await containerSite(async () => {
    throw new RuntimeUnavailable("the daemon does not answer");
  });
  const { status } = site.slot("a");
  assert.deepEqual([status.state, status.lastError?.reason, status.failures], ["error", "RuntimeUnavailable", 0]);
  assert.equal(findCondition(status.conditions, "Reconciling")?.reason, "ProgressingWithRetry");
  // As long as a daemon takes to be restarted requests wait; after that they are told to come again later.
  assert.equal(next(site), later(10).toISOString());
  await site.advance(9);
  assert.equal(next(site), later(10).toISOString());
  await site.advance(2);
  const [far = ""] = [next(site)];
  assert.ok(Date.parse(far) >= later(39).getTime(), far);
  site.runtime.prepared = undefined;
  await site.advance(2);
  assert.deepEqual([site.state("a"), next(site), site.slot("a").status.restarts], ["ready", undefined, 0]);
});

test("an engine that failed before the runtime became unreachable starts as soon as the runtime answers", async () => {
  await using site = await containerSite(async () => ({ state: "ready" }));
  await site.advance(5);
  site.runtime.kill("a");
  await site.settle();
  assert.equal(site.slot("a").status.failures, 1);
  site.runtime.prepared = async () => {
    throw new RuntimeUnavailable("the daemon does not answer");
  };
  await site.advance(65);
  assert.equal(site.slot("a").status.lastError?.reason, "RuntimeUnavailable");
  site.runtime.prepared = undefined;
  await site.after(5, "a", "ready");
});
