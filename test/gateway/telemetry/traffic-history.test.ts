import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { TrafficHistory, type SlotTotals } from "../../../src/gateway/telemetry/traffic-history.ts";
import type { RecentRequest } from "../../../src/gateway/telemetry/recent-requests.ts";

const quiet: SlotTotals = { requests: 0, errors: 0, tokensIn: 0, tokensOut: 0 };

function ended(slot: string, firstTokenMs: number, endedAt: number): RecentRequest {
  return {
    endedAt,
    requestId: "r",
    path: "/v1/chat/completions",
    slot,
    requestedModel: slot,
    code: 200,
    error: undefined,
    engineText: undefined,
    isStream: true,
    ms: 10,
    heldMs: 0,
    queuedMs: 0,
    firstTokenMs,
    resolvedModel: undefined,
    engineMs: undefined,
    tokensIn: undefined,
    tokensOut: undefined,
    body: undefined,
  };
}

/** A history whose counters and clock are the test's. */
function historyWith(): {
  readonly history: TrafficHistory;
  /** Ends a step after five seconds, at whose end the counters are these. */
  readonly step: (totals?: Record<string, Partial<SlotTotals>>, requests?: readonly RecentRequest[]) => void;
  inFlight: number;
  now: number;
} {
  let totals = new Map<string, SlotTotals>();
  let recent: readonly RecentRequest[] = [];
  const own = { inFlight: 0, now: Date.parse("2026-11-28T12:00:00Z") };
  const history = new TrafficHistory(
    {
      metrics: { totals: () => totals },
      traffic: { inFlight: () => own.inFlight },
      admission: { counts: () => ({ queued: 0, held: own.inFlight }) },
      recent: { list: (limit) => recent.slice(0, limit) },
    },
    () => own.now,
  );
  const step = (now: Record<string, Partial<SlotTotals>> = {}, requests: readonly RecentRequest[] = []): void => {
    totals = new Map([...totals, ...Object.entries(now).map(([slot, each]) => [slot, { ...quiet, ...each }] as const)]);
    recent = [...requests, ...recent];
    own.now += 5000;
    history.step();
  };
  return Object.assign(own, { history, step });
}

describe("the traffic of the last minutes", () => {
  it("has what was counted in each step, and what was under way at its end", () => {
    const own = historyWith();
    using history = own.history;
    own.step({ coder: { requests: 3, errors: 1, tokensIn: 10, tokensOut: 40 } });
    own.inFlight = 2;
    own.step({ coder: { requests: 3, errors: 1, tokensIn: 10, tokensOut: 60 } });
    const { step_seconds: seconds, ended_at: endedAt, steps, series } = history.view(15);
    assert.deepEqual([seconds, endedAt, steps], [5, "2026-11-28T12:00:10.000Z", 2]);
    assert.deepEqual(series, [
      {
        slot: "coder",
        requests: [3, 0],
        errors: [1, 0],
        tokens_in: [10, 0],
        tokens_out: [40, 20],
        in_flight: [0, 2],
        waiting: [0, 2],
        first_token_ms: [null, null],
      },
    ]);
  });

  it("tells the median and the 95th of a hundred first tokens of the requests that ended in the step", () => {
    const own = historyWith();
    using history = own.history;
    own.step({ coder: { requests: 1 } }, [ended("coder", 9999, own.now + 1)]);
    const times = Array.from({ length: 20 }, (_, at) => ended("coder", (at + 1) * 100, own.now + 1));
    own.step({ coder: { requests: 22 } }, [...times, ended("coder", 0, own.now + 1)]);
    assert.deepEqual(history.view(15).series[0]?.first_token_ms, [
      { p50: 9999, p95: 9999, count: 1 },
      { p50: 1000, p95: 1900, count: 20 },
    ]);
  });

  it("forgets after fifteen minutes, shows fewer on request, and leaves out who had none", () => {
    const own = historyWith();
    using history = own.history;
    own.step({ coder: { requests: 1 }, silent: {} });
    for (let count = 0; count < 179; count += 1) own.step();
    assert.equal(history.view(15).series.length, 1);
    assert.deepEqual(history.view(1), { ...history.view(1), steps: 12, series: [] });
    own.step();
    assert.deepEqual([history.view(15).steps, history.view(15).series], [180, []]);
  });

  it("is bounded: the slots beyond a hundred are summed up, and slots that come and go leave nothing", () => {
    const own = historyWith();
    using history = own.history;
    const some = (from: number, count: number): Record<string, Partial<SlotTotals>> =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`s${from + at}`, { requests: 2, tokensOut: 5 }]));
    own.step(some(0, 103), [ended("s102", 100, own.now + 1)]);
    const { series } = history.view(15);
    assert.equal(series.length, 101);
    const { slot, requests, tokens_out, first_token_ms } = series.at(-1) ?? {};
    assert.deepEqual([slot, requests, tokens_out, first_token_ms], ["other slots", [6], [15], [null]]);
    for (let count = 0; count < 180; count += 1) own.step();
    own.step(some(200, 50));
    assert.deepEqual(
      history.view(15).series.map((each) => each.slot),
      Array.from({ length: 50 }, (_, at) => `s${200 + at}`),
    );
  });

  it("counts from nothing again for a slot that was removed and made anew", () => {
    const own = historyWith();
    using history = own.history;
    own.step({ coder: { requests: 5, tokensOut: 50 } });
    own.step({ coder: { requests: 2, tokensOut: 7 } });
    assert.deepEqual(history.view(15).series[0]?.tokens_out, [50, 7]);
  });
});
