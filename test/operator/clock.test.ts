import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import { unreachableReason, runtimeUnreachableUntil } from "../../src/operator/plan/unreachable.ts";
import { onRequestOf } from "../../src/operator/plan/on-request.ts";
import { loadOf } from "../../src/operator/report/load-times.ts";
import { epoch, input, later, observed, published } from "./fixture.ts";
import { custom, Site } from "./site.ts";

const hours = 6 * 3_600_000;

for (const [direction, byMs] of [
  ["ahead", hours],
  ["back", -hours],
] as const) {
  /** All these slots in one site, of which the clock is set after `seconds`. */
  const setAfter = async (
    site: Site,
    slots: Readonly<Record<string, SlotSpecInput>>,
    seconds: number,
  ): Promise<void> => {
    await site.run(slots, seconds);
    site.clock.set(byMs);
    site.publisher.isClockSetBack = byMs < 0;
  };

  describe(`a clock that is set ${direction} by hours`, () => {
    test("gives an engine its whole time to load, and no more", async () => {
      await using site = new Site();
      site.runtime.manner("a").loadMs = 30_000;
      site.runtime.manner("hung").loadMs = Infinity;
      const spec = custom({ probe: { startupSeconds: 60 } });
      await setAfter(site, { a: spec, hung: spec }, 10);
      await site.after(25, "a", "ready", ["start main"]);
      assert.deepEqual(site.deeds("hung"), ["start main"]);
      await site.advance(26);
      assert.equal(site.slot("hung").status.lastError?.reason, "StartupTimeout");
    });

    test("keeps no slot in back-off for longer than planned", async () => {
      await using site = new Site();
      site.runtime.manner("a").crashAfterMs = 10;
      await setAfter(site, { a: custom() }, 140);
      site.runtime.manner("a").crashAfterMs = undefined;
      assert.ok(site.slot("a").status.failures > 5);
      const starts = (): number => site.deeds("a").filter((deed) => deed === "start main").length;
      const before = starts();
      await site.advance(140);
      assert.deepEqual([site.state("a"), starts()], ["ready", before + 1]);
    });

    test("disturbs no engine that serves: requests, unloads and failing probes count as before", async () => {
      await using site = new Site();
      const cold = custom({ load: "onDemand", idleSeconds: 30 });
      for (const slot of ["cold", "drains"]) site.ask(slot, { inFlight: 1 });
      site.source.save("drains", custom({ stopSeconds: 20 }));
      await site.run({ asked: custom(), ill: custom(), cold }, 99);
      await site.request("drains", "unload");
      await setAfter(site, {}, 1);
      assert.equal(site.state("drains"), "unloading");
      await site.advance(100);
      assert.equal(site.state("drains"), "offline", "although its request does not end");
      for (const slot of ["asked", "ill", "cold"])
        assert.deepEqual([site.state(slot), ...site.deeds(slot)], ["ready", "start main"], slot);
      site.runtime.manner("ill").probe = "failing";
      site.demand.set("cold", { inFlight: 0 });
      await site.request("asked", "restart");
      await site.advance(60);
      assert.equal(site.slot("ill").status.lastError?.reason, "Unhealthy");
      assert.deepEqual([site.state("cold"), ...site.deeds("cold")], ["offline", "start main", "stop main"]);
      assert.deepEqual([site.state("asked"), ...site.requests.list("asked")], ["ready"]);
      assert.deepEqual(site.deeds("asked"), ["start main", "stop main", "start main"]);
    });
  });
}

test("requests for a slot whose runtime is unreachable are not refused for the hours that a clock was set back", () => {
  const condition = {
    type: "Ready",
    status: "False",
    reason: unreachableReason,
    message: "",
    observedGeneration: 1,
  } as const;
  const before = published({
    conditions: [{ ...condition, lastTransitionTime: later(hours / 1000).toISOString() }],
    nextRetryAt: later(hours / 1000 + 10).toISOString(),
  });
  assert.deepEqual(runtimeUnreachableUntil(input({ before, now: epoch })), later(30));
});

test("a model that could not be loaded before the clock was set back is loaded when it is requested", () => {
  const [at, retryAt] = [later(3600).toISOString(), later(3900).toISOString()];
  const failed = [{ ref: "big", reason: "Exited", message: "", failures: 1, at, retryAt, isStalled: false }];
  const onRequest = { usual: "tiny", refs: ["tiny", "big"], chosen: "tiny", since: epoch.toISOString(), failed };
  const byRef = new Map([["big", { held: 1, inFlight: 0, waitingSince: later(99) }]]);
  const given = input({ spec: { model: { default: "tiny", onRequest: ["big"] } }, observed: [observed()] });
  const demand = { ...given.demand, held: 1, byRef };
  const choice = onRequestOf({ ...given, before: published({ onRequest }), demand }, "tiny");
  assert.deepEqual([choice?.chosen, choice?.failed], ["big", []]);
});

test("no load has taken less than no time where the clock was set back during its pull", () => {
  const transition = { from: "offline", to: "pulling", reason: "Pulling", message: "" } as const;
  const { status } = published({ state: "pulling", transitions: [{ ...transition, at: later(3600).toISOString() }] });
  const starting = { severity: "progressing", reason: "Starting", message: "", steps: [] } as const;
  const decision = { ...starting, state: "starting", isServed: false, check: "notRunning" } as const;
  const load = loadOf(input(), status, decision, { started: [{ role: "main", ordinal: 0 }] });
  assert.equal(load?.lastLoad?.pullSeconds, 0);
});
