import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  ownTrace,
  passedTrace,
  readTraceparent,
  readTracestate,
  UnsampledTraces,
} from "../../../src/gateway/telemetry/trace-context.ts";
import { TraceSampler } from "../../../src/gateway/telemetry/trace-sampler.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const parent = "b7ad6b7169203331";
const sampled = `00-${traceId}-${parent}-01`;
const none = { choose: () => false, chooseOfClient: () => false };

describe("traceparent", () => {
  it("is read as the standard says", () => {
    assert.deepEqual(readTraceparent(sampled), { traceId, spanId: parent, flags: 1 });
    assert.equal(readTraceparent(`00-${traceId}-${parent}-00`)?.flags, 0);
    // What the flags of a later version mean is not known, apart from the first.
    assert.deepEqual(readTraceparent(`01-${traceId}-${parent}-ff-more`), { traceId, spanId: parent, flags: 1 });
    for (const bad of [
      undefined,
      "",
      `ff-${traceId}-${parent}-01`,
      `${sampled}-more`,
      `00-${"0".repeat(32)}-${parent}-01`,
      `00-${traceId}-${"0".repeat(16)}-01`,
      `00-${traceId.toUpperCase()}-${parent}-01`,
      `${sampled}\r\nx: y`,
    ])
      assert.equal(readTraceparent(bad), undefined, bad);
  });

  it("is passed on unchanged where this gateway records no spans", () => {
    for (const flags of ["00", "01", "02", "03", "a5"]) {
      const headers = { traceparent: `00-${traceId}-${parent}-${flags}`, tracestate: "a=1" };
      for (const passed of [passedTrace(headers), ownTrace(headers, none)]) {
        const { traceparent, tracestate, spans } = passed ?? {};
        assert.deepEqual([traceparent, tracestate, spans], [headers.traceparent, "a=1", undefined]);
      }
    }
    assert.equal(passedTrace({ tracestate: "a=1" }), undefined);
    assert.equal(ownTrace({}, none).spans, undefined);
  });

  it("differs for requests that are not sampled, also where their numbers end and begin again", () => {
    assert.match(ownTrace({}, none).traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    for (const first of [2 ** 24 - 300, 2 ** 24 - 1, 0xff, 0x1ff_ff]) {
      const unsampled = new UnsampledTraces(first);
      const traces = Array.from({ length: 1000 }, () => unsampled.next());
      for (const { traceId: own, traceparent, lines, isSampled } of traces) {
        assert.deepEqual([isSampled, readTraceparent(traceparent)?.flags], [false, 0], traceparent);
        assert.equal(lines, `traceparent: ${traceparent}\r\n`);
        assert.ok(traceparent.startsWith(`00-${own}-`));
      }
      assert.equal(new Set(traces.map((trace) => trace.traceId)).size, 1000, "traces");
      assert.equal(new Set(traces.map(({ traceparent }) => traceparent.slice(36, 52))).size, 1000, "spans");
    }
  });

  it("has its tracestate beside it, as far as the standard allows", () => {
    for (const [header, passed] of [
      ["congo=t61rcWkgMzE,rojo=00f067aa0ba902b7", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"],
      [undefined, undefined],
      ["", undefined],
      ["a=1\r\nx: y", undefined],
      ["a=é", undefined],
      [`a=1,${"b".repeat(507)}=2`, "a=1"],
      ["b".repeat(600), undefined],
    ] as const)
      assert.equal(readTracestate(header), passed, header);
  });
});

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
