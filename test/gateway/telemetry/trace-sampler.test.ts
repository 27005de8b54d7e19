import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ownTrace } from "../../../src/gateway/telemetry/trace-context.ts";
import { TraceSampler } from "../../../src/gateway/telemetry/trace-sampler.ts";

const chosen = (sampler: TraceSampler, requests: number): number => {
  let count = 0;
  for (let nth = 0; nth < requests; nth += 1) if (sampler.choose()) count += 1;
  return count;
};

describe("TraceSampler", () => {
  it("samples about the configured part", () => {
    let now = 0;
    // Each in a second of its own, so that the limit of a second plays no part.
    for (const part of [0, 5e-324, 1e-17])
      assert.equal(chosen(new TraceSampler(part, () => (now += 1000)), 1000), 0, String(part));
    for (const part of [0.1, 0.9]) {
      const found = chosen(new TraceSampler(part, () => (now += 1000)), 20_000) / 20_000;
      assert.ok(Math.abs(found - part) < 0.02, `${found} instead of ${part}`);
    }
  });

  it("samples by chance, not each nth", () => {
    let now = 0;
    const sampler = new TraceSampler(0.25, () => (now += 1000));
    const gaps = new Set<number>();
    let gap = 0;
    for (let nth = 0; nth < 2000; nth += 1) {
      gap += 1;
      if (!sampler.choose()) continue;
      gaps.add(gap);
      gap = 0;
    }
    assert.ok(gaps.size > 4, [...gaps].join(" "));
  });

  it("samples 20 traces a second at most, unless all are configured", () => {
    let now = 500;
    const sampler = new TraceSampler(0.5, () => now);
    assert.equal(chosen(sampler, 10_000), 20);
    now += 499;
    assert.equal(chosen(sampler, 10_000), 0);
    now += 1;
    assert.equal(chosen(sampler, 10_000), 20);
    assert.equal(chosen(new TraceSampler(1, () => now), 10_000), 10_000);
  });

  it("takes 100 a second of those that clients have sampled, beside its own", () => {
    let now = 500;
    const sampler = new TraceSampler(0.5, () => now);
    const headers = { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01` };
    const traced = (requests: number): number =>
      Array.from({ length: requests }, () => ownTrace(headers, sampler)).filter(({ spans }) => spans !== undefined)
        .length;
    assert.equal(traced(1000), 100);
    assert.equal(ownTrace(headers, sampler).traceparent, headers.traceparent, "the others are passed on");
    assert.equal(chosen(sampler, 10_000), 20);
    now += 1000;
    assert.equal(traced(1000), 100);
  });
});
