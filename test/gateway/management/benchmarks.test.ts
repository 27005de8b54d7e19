import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { LastBenchmark } from "../../../src/api/benchmark.ts";
import { modelRecord } from "../../support/gateway.ts";
import { site, type Site } from "./fixture.ts";

const times = { first_token_ms: 12, slowest_first_token_ms: 20 };
const levels = [
  { clients: 1, requests: 3, ...times, tokens_per_second_each: null, tokens_per_second: 40.5 },
  { clients: 2, requests: 6, ...times, tokens_per_second_each: 25, tokens_per_second: 50 },
];
const body = { model: "test-model", max_tokens: 64, levels };
const keptTimes = { firstTokenMs: 12, slowestFirstTokenMs: 20 };
const kept: LastBenchmark = {
  measuredAt: "2026-11-23T07:00:00.000Z",
  model: "test-model",
  backend: "cpu",
  runtime: "process",
  maxTokens: 64,
  levels: [
    { clients: 1, requests: 3, ...keptTimes, tokensPerSecond: 40.5 },
    { clients: 2, requests: 6, ...keptTimes, tokensPerSecondEach: 25, tokensPerSecond: 50 },
  ],
  of: {},
};
const earlier = { ...kept, measuredAt: "2026-11-23T06:00:00.000Z", backend: "cuda" };

describe("a result of berth bench", () => {
  let at: Site;
  before(async () => {
    const lastLoad = { startedAt: kept.measuredAt, startSeconds: 1, warmSeconds: 0.25 };
    const status = { backend: "vulkan", runtime: "process", lastLoad, lastBenchmark: kept } as const;
    at = await site({
      slots: { primary: { port: 1, status }, another: { port: 2, status: { lastBenchmark: earlier } }, cold: {} },
      registry: { models: ["test-model", "other"].map((ref) => modelRecord(ref)) },
    });
  });
  after(() => at[Symbol.asyncDispose]());

  it("is refused for a slot that is not loaded, holds another model, or does not exist", async () => {
    for (const [slot, sent, is] of [
      ["cold", body, "409 slot.not_ready"],
      ["primary", { ...body, model: "other" }, "400 dispatch.invalid_request"],
      ["primary", { ...body, levels: [] }, "400 dispatch.invalid_request"],
      ["nobody", body, "404 slot.not_found"],
    ] as const)
      assert.equal((await at.refused("POST", `/api/slots/${slot}/benchmark`, sent)).is, is);
    assert.deepEqual([...(await at.requests("primary")), ...(await at.requests("cold"))], []);
  });

  it("is passed to the operator with what the slot is now", async () => {
    assert.equal((await at.send("POST", "/api/slots/another/benchmark", body)).status, 202);
    assert.equal((await at.requests("another"))[0]?.benchmark?.backend, "auto");
    assert.equal((await at.send("POST", "/api/slots/primary/benchmark", body)).status, 202);
    const { measuredAt, of: _of, ...result } = kept;
    const [request] = await at.requests("primary");
    assert.equal(request?.kind, "benchmark");
    assert.partialDeepStrictEqual(request.benchmark, { ...result, backend: "vulkan", loadSeconds: 1.25 });
    assert.notEqual(request.benchmark?.measuredAt, measuredAt);
  });

  it("is shown with its slot and its model: the latest of several, and with the model only while it holds", async () => {
    const { measuredAt: measured_at, model, backend, runtime } = kept;
    const result = { model, backend, runtime, load_seconds: null, max_tokens: 64, levels, changed: null };
    const shown = { measured_at, ...result };
    const lastOf = async (path: string): Promise<unknown> => (await at.got(path))["last_benchmark"];
    assert.deepEqual(await lastOf("/api/slots/primary"), shown);
    assert.deepEqual(await lastOf("/api/models/test-model"), { slot: "primary", ...shown });
    assert.equal(await lastOf("/api/models/other"), null);
    const changed = "the engine has changed";
    for (const [slot, lastBenchmark] of Object.entries({ primary: kept, another: earlier }))
      await at.publish(slot, { port: 1, status: { lastBenchmark: { ...lastBenchmark, changed } } });
    assert.deepEqual(await lastOf("/api/slots/primary"), { ...shown, changed });
    assert.equal(await lastOf("/api/models/test-model"), null);
  });
});
