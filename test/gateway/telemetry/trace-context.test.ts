import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { passedTrace, readTraceparent, readTracestate } from "../../../src/gateway/telemetry/trace-context.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const parent = "b7ad6b7169203331";
const sampled = `00-${traceId}-${parent}-01`;

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
      const { traceparent, tracestate, lines } = passedTrace(headers)?.forAttempt() ?? {};
      assert.deepEqual([traceparent, tracestate], [headers.traceparent, "a=1"]);
      assert.equal(lines, `traceparent: ${headers.traceparent}\r\ntracestate: a=1\r\n`);
    }
    assert.equal(passedTrace({ tracestate: "a=1" }), undefined);
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
