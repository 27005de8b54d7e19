import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Histogram, Registry } from "prom-client";
import { RouteHistogram } from "../../src/gateway/route-histogram.ts";
import { fc } from "../support/fast-check.ts";

const buckets = [0.005, 0.5, 1, 10];
const named = { name: "berth_seconds", help: "How long" };
const observation = fc.record({
  route: fc.constantFrom("/v1/chat/completions", "/v1/embeddings"),
  slot: fc.constantFrom("primary", 'odd "name"\\'),
  seconds: fc.oneof(fc.constantFrom(0, ...buckets), fc.double({ min: 0, max: 20, noNaN: true })),
});

describe("RouteHistogram", () => {
  it("shows the same page as prom-client's own, to the byte", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(observation, { maxLength: 30 }), async (observations) => {
        const theirs = new Registry();
        const own = new Registry();
        const plain = new Histogram({ ...named, buckets, labelNames: ["route", "slot"], registers: [theirs] });
        const histogram = new RouteHistogram({ ...named, buckets });
        own.registerMetric(histogram);
        const series = new Map<string, ReturnType<RouteHistogram["series"]>>();
        for (const { route, slot, seconds } of observations) {
          const key = `${route} ${slot}`;
          const one = series.get(key) ?? histogram.series({ route, slot });
          series.set(key, one);
          one.observe(seconds);
          plain.observe({ route, slot }, seconds);
        }
        assert.equal(await own.metrics(), await theirs.metrics());
      }),
    );
  });

  it("shows nothing of a series that has seen nothing", async () => {
    const registry = new Registry();
    const histogram = new RouteHistogram({ ...named, buckets });
    registry.registerMetric(histogram);
    histogram.series({ route: "/v1/rerank", slot: "embed" });
    assert.equal(await registry.metrics(), "# HELP berth_seconds How long\n# TYPE berth_seconds histogram\n");
  });
});
