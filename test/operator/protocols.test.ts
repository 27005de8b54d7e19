import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotStatus } from "../../src/api/status.ts";
import { plan } from "../../src/operator/plan.ts";
import { spokenProtocols } from "../../src/operator/protocol-probe.ts";
import { summarise, type Outcome } from "../../src/operator/summarise.ts";
import type { SlotInput } from "../../src/operator/input.ts";
import { cold, input, observed, published, warm } from "./fixture.ts";

/** The status after a look at which the adapter says that a llama-server would be started. */
function protocols(given: SlotInput, outcome: Partial<Outcome> = {}): SlotStatus["protocols"] {
  const whole: Outcome = {
    observed: given.observed,
    health: given.health,
    stopping: [],
    started: 0,
    capabilities: ["chat"],
    protocols: ["messages"],
    served: "tiny",
    handledRequests: {},
    ...outcome,
  };
  return summarise(given, plan(given), whole, { firstMs: 1000, limitMs: 1000, random: () => 1 }).status.protocols;
}

const running = { observed: [observed()], health: { main: warm } };

test("what an engine speaks is published when it is started", () => {
  const started = { observed: [observed()], health: { main: cold }, started: 1 };
  assert.deepEqual(protocols(input(), started), ["messages"]);
});

test("an engine that goes on keeps what it speaks, though another would be started now", () => {
  const before = published({ protocols: ["responses"], workloadHash: "hash-1" });
  assert.deepEqual(protocols(input({ ...running, before })), ["responses"]);
});

test("what it was seen to speak counts for more than what its adapter says", () => {
  const seen = { ...warm, protocols: ["responses"] as const };
  const before = published({ protocols: ["messages", "responses"], workloadHash: "hash-1" });
  assert.deepEqual(protocols(input({ ...running, health: { main: seen }, before })), ["responses"]);
  assert.deepEqual(protocols(input({ before, health: { main: seen } })), ["messages"], "not once it is gone");
});

test("an engine is asked for each protocol it may speak, and only a missing route is a no", async () => {
  const status = { "/v1/responses": 404, "/v1/messages": 500, "/v1/messages/count_tokens": 405 };
  const asked: unknown[] = [];
  const spoken = await spokenProtocols(
    async ({ path, body }) => {
      asked.push([path, body]);
      const [, code] = Object.entries(status).find(([known]) => known === path) ?? [];
      return code === undefined
        ? { outcome: "failed", message: "silence" }
        : { outcome: "failed", message: "", status: code };
    },
    ["responses", "messages", "count_tokens"],
    { port: 1, timeoutMs: 1, signal: AbortSignal.timeout(180_000) },
  );
  assert.deepEqual(spoken, ["messages"]);
  assert.deepEqual(
    asked,
    Object.keys(status).map((path) => [path, {}]),
  );
  const silent = await spokenProtocols(
    () => Promise.resolve({ outcome: "failed", message: "no answer" }),
    ["messages"],
    { port: 1, timeoutMs: 1, signal: AbortSignal.timeout(180_000) },
  );
  assert.deepEqual(silent, ["messages"]);
});

test("one that replaces it brings its own", () => {
  const before = published({ protocols: ["responses"], workloadHash: "hash-0" });
  assert.deepEqual(protocols(input({ ...running, before }), { started: 1 }), ["messages"]);
  assert.deepEqual(protocols(input({ before })), ["messages"]);
});
