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
    const sampler = new TraceSampler(0.1, () => (now += 1000));
    const count = chosen(sampler, 4000);
    assert.ok(count > 250 && count < 600, `${count} of 4000`);
    assert.equal(chosen(new TraceSampler(0), 1000), 0);
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
