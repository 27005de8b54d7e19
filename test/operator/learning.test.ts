import assert from "node:assert/strict";
import { test } from "node:test";
import type { Unlearned } from "../../src/operator/plan/learning.ts";
import { custom, Site } from "./site.ts";

const estimate = (key: string): Unlearned => ({ do: "estimate", key, program: "/opt/llama-server", launches: [] });

test("a start waits for the engine's estimate, and is refused by it; nothing is published between", async () => {
  await using site = new Site();
  const message = "needs 9 GiB on host, which has 8 GiB";
  site.fit = {
    ...site.fit,
    estimate: async ({ isDue, learned, engineInput: { slot } }) => {
      if (!isDue) return {};
      if (!learned.estimates.has(slot)) return { unlearned: [estimate(slot)] };
      return slot === "large" ? { refusal: { reason: "DoesNotFit", message } } : {};
    },
  };
  await site.run({ small: custom(), large: custom() });
  assert.deepEqual([site.state("small"), site.condition("large", "Stalled")], ["ready", "True/DoesNotFit"]);
  assert.deepEqual([site.deeds("small"), site.deeds("large")], [["start main"], []]);
  assert.deepEqual(site.states("large"), ["error"], "it was not offline, pulling or starting before");
  const steps = ["small", "large"].flatMap((slot) => site.slot(slot).plan.steps);
  assert.deepEqual(steps, []);
});

test("a paused operator learns nothing, and its plan says what it would learn", async () => {
  await using site = await new Site().run({ a: custom(), cold: custom({ load: "onDemand" }) });
  site.learned.length = 0;
  const usual = site.fit;
  site.fit = {
    ...site.fit,
    estimate: async ({ isDue }) => ({
      unlearned: [isDue ? estimate("cold") : { do: "record", key: "a", measured: [] }],
    }),
  };
  await site.start({ isPaused: true });
  const group = { schema: 1, group: "gpu", requestedAt: site.clock.now().toISOString() } as const;
  site.source.group("gpu", { budget: { slots: 1 } });
  await site.groupStore.lend({ ...group, until: new Date(site.clock.now().getTime() + 1000).toISOString() });
  await site.advance(90);
  assert.deepEqual(
    ["a", "cold"].map((slot) => site.slot(slot).plan.steps.map((step) => step.do)),
    [["record", "measure"], ["estimate"]],
  );
  assert.deepEqual(
    [site.condition("a", "Ready"), site.condition("cold", "Ready")],
    ["True/Loaded", "True/ScaledToZero"],
  );
  assert.deepEqual(site.learned, []);
  assert.ok(site.groupStore.loan("gpu") !== undefined, "the ended loan is left to an operator that acts");
  site.fit = usual;
  await site.start();
  await site.advance(1);
  assert.equal(site.groupStore.loan("gpu"), undefined);
});

test("the header of a model is read before the model is fetched", async () => {
  await using site = new Site();
  const source = "hf://owner/repo/far.gguf";
  site.setModel("far", { source, files: [], state: "missing", reason: "NotFetched", fetch: { files: [{ source }] } });
  site.fit = {
    ...site.fit,
    beforeFetch: (_input, unprepared) =>
      site.learned.length > 0 ? unprepared : { ...unprepared, isHeaderUnread: true },
  };
  await site.run({ primary: { model: { default: "far" } } });
  assert.deepEqual(site.learned, ["read far"]);
});
