import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { LastBenchmark } from "../../../src/api/benchmark.ts";
import { modelRecord } from "../../support/gateway.ts";
import { site } from "./fixture.ts";

const levels = [
  {
    clients: 1,
    requests: 3,
    first_token_ms: 12,
    slowest_first_token_ms: 20,
    tokens_per_second_each: null,
    tokens_per_second: 40.5,
  },
  {
    clients: 2,
    requests: 6,
    first_token_ms: 15,
    slowest_first_token_ms: 30,
    tokens_per_second_each: 25,
    tokens_per_second: 50,
  },
];
const body = { model: "test-model", max_tokens: 64, levels };

const kept: LastBenchmark = {
  measuredAt: "2026-11-23T07:00:00.000Z",
  model: "test-model",
  backend: "cpu",
  runtime: "process",
  maxTokens: 64,
  levels: [
    { clients: 1, requests: 3, firstTokenMs: 12, slowestFirstTokenMs: 20, tokensPerSecond: 40.5 },
    {
      clients: 2,
      requests: 6,
      firstTokenMs: 15,
      slowestFirstTokenMs: 30,
      tokensPerSecondEach: 25,
      tokensPerSecond: 50,
    },
  ],
  of: {},
};
const shown = {
  measured_at: kept.measuredAt,
  model: "test-model",
  backend: "cpu",
  runtime: "process",
  load_seconds: null,
  max_tokens: 64,
  levels,
  changed: null,
};

describe("a result of berth bench", () => {
  it("is passed to the operator with what the slot is now", async () => {
    const lastLoad = { startedAt: kept.measuredAt, startSeconds: 1, warmSeconds: 0.25 };
    const status = { backend: "vulkan", runtime: "process", lastLoad } as const;
    await using at = await site({ slots: { primary: { port: 1, status }, coder: { port: 2 } } });
    assert.equal((await at.send("POST", "/api/slots/coder/benchmark", body)).status, 202);
    assert.equal((await at.requests("coder"))[0]?.benchmark?.backend, "auto");
    assert.equal((await at.send("POST", "/api/slots/primary/benchmark", body)).status, 202);
    const [request] = await at.requests("primary");
    assert.equal(request?.kind, "benchmark");
    const { measuredAt: _at, ...benchmark } = request.benchmark ?? { measuredAt: "" };
    assert.deepEqual(benchmark, {
      model: "test-model",
      backend: "vulkan",
      runtime: "process",
      loadSeconds: 1.25,
      maxTokens: 64,
      levels: kept.levels,
    });
  });

  it("is refused for a slot that is not loaded, holds another model, or does not exist", async () => {
    await using at = await site({ slots: { primary: { port: 1 }, coder: {} } });
    for (const [slot, sent, is] of [
      ["coder", body, "409 slot.not_ready"],
      ["primary", { ...body, model: "other" }, "400 dispatch.invalid_request"],
      ["primary", { ...body, levels: [] }, "400 dispatch.invalid_request"],
      ["nobody", body, "404 slot.not_found"],
    ] as const)
      assert.equal((await at.refused("POST", `/api/slots/${slot}/benchmark`, sent)).is, is);
    assert.deepEqual([...(await at.requests("primary")), ...(await at.requests("coder"))], []);
  });

  it("is shown with its slot and its model: the latest of several, and with the model only while it holds", async () => {
    const models = ["test-model", "other"].map((ref) => modelRecord(ref));
    const earlier = { ...kept, measuredAt: "2026-11-23T06:00:00.000Z", backend: "cuda" };
    await using at = await site({
      slots: {
        another: { port: 2, status: { lastBenchmark: earlier } },
        primary: { port: 1, status: { lastBenchmark: kept } },
      },
      registry: { models },
    });
    const lastOf = async (path: string): Promise<unknown> => (await at.got(path))["last_benchmark"];
    assert.deepEqual(await lastOf("/api/slots/primary"), shown);
    assert.deepEqual(await lastOf("/api/models/test-model"), { slot: "primary", ...shown });
    assert.equal(await lastOf("/api/models/other"), null);
    const changed = "the engine has changed";
    for (const [slot, port, lastBenchmark] of [
      ["primary", 1, kept],
      ["another", 2, earlier],
    ] as const)
      await at.publish(slot, { port, status: { lastBenchmark: { ...lastBenchmark, changed } } });
    assert.deepEqual(await lastOf("/api/slots/primary"), { ...shown, changed });
    assert.equal(await lastOf("/api/models/test-model"), null);
  });
});
