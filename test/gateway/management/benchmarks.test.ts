import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { LastBenchmark } from "../../../src/api/benchmark.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { openRequestStore } from "../../../src/store/state/requests.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { modelRecord, startGateway, type TestGateway } from "../../support/gateway.ts";

const levels = [
  {
    clients: 1,
    requests: 3,
    first_token_ms: 12,
    slowest_first_token_ms: 20,
    tokens_per_second_each: null,
    tokens_per_second: 40.5,
  },
];
const body = { model: "test-model", max_tokens: 64, levels };

const kept: LastBenchmark = {
  measuredAt: "2026-11-23T07:00:00.000Z",
  model: "test-model",
  backend: "cpu",
  runtime: "process",
  maxTokens: 64,
  levels: [{ clients: 1, requests: 3, firstTokenMs: 12, slowestFirstTokenMs: 20, tokensPerSecond: 40.5 }],
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

async function lastOf(gateway: TestGateway, path: string): Promise<unknown> {
  const answer: unknown = await (await fetch(new URL(path, gateway.url))).json();
  return isRecord(answer) ? answer["last_benchmark"] : undefined;
}

describe("a result of berth bench", () => {
  it("is passed to the operator with what the slot is now", async () => {
    const lastLoad = { startedAt: kept.measuredAt, startSeconds: 1, warmSeconds: 0.25 };
    await using gateway = await startGateway({
      slots: { primary: { port: 1, status: { backend: "vulkan", runtime: "process", lastLoad } } },
    });
    assert.equal((await gateway.post("/api/slots/primary/benchmark", body)).status, 202);
    await using requests = await openRequestStore(gateway.stateDir);
    const [request] = requests.list("primary");
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
    await using gateway = await startGateway({ slots: { primary: { port: 1 }, coder: {} } });
    const refused = async (slot: string, sent: object): Promise<unknown[]> => {
      const answer = await gateway.post(`/api/slots/${slot}/benchmark`, sent);
      return [answer.status, (await envelopeOf(answer)).error.code];
    };
    assert.deepEqual(await refused("coder", body), [409, "slot.not_ready"]);
    assert.deepEqual(await refused("primary", { ...body, model: "other" }), [400, "dispatch.invalid_request"]);
    assert.deepEqual(await refused("primary", { ...body, levels: [] }), [400, "dispatch.invalid_request"]);
    assert.deepEqual(await refused("nobody", body), [404, "slot.not_found"]);
    await using requests = await openRequestStore(gateway.stateDir);
    assert.deepEqual([...requests.list("primary"), ...requests.list("coder")], []);
  });

  it("is shown with its slot and its model, and with the model only while the result holds", async () => {
    await using gateway = await startGateway({
      slots: { primary: { port: 1, status: { lastBenchmark: kept } } },
      registry: { models: [modelRecord("test-model"), modelRecord("other")] },
    });
    assert.deepEqual(await lastOf(gateway, "/api/slots/primary"), shown);
    assert.deepEqual(await lastOf(gateway, "/api/models/test-model"), { slot: "primary", ...shown });
    assert.equal(await lastOf(gateway, "/api/models/other"), null);
    const changed = "the engine has changed";
    await gateway.publish("primary", { port: 1, status: { lastBenchmark: { ...kept, changed } } });
    assert.deepEqual(await lastOf(gateway, "/api/slots/primary"), { ...shown, changed });
    assert.equal(await lastOf(gateway, "/api/models/test-model"), null);
  });

  it("is the latest result where several slots hold the model", async () => {
    const later = { ...kept, measuredAt: "2026-11-23T08:00:00.000Z", backend: "cuda" };
    await using gateway = await startGateway({
      slots: {
        one: { port: 1, status: { lastBenchmark: later } },
        two: { port: 2, status: { lastBenchmark: kept } },
      },
      registry: { models: [modelRecord("test-model")] },
    });
    const last = await lastOf(gateway, "/api/models/test-model");
    assert.ok(isRecord(last));
    assert.deepEqual([last["slot"], last["backend"]], ["one", "cuda"]);
  });
});
