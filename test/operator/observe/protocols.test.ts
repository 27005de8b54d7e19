import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotStatus } from "../../../src/api/status.ts";
import { plan } from "../../../src/operator/plan/plan.ts";
import { spokenProtocols } from "../../../src/operator/observe/protocol-probe.ts";
import type { Outcome } from "../../../src/operator/report/outcome.ts";
import { summarise } from "../../../src/operator/report/summarise.ts";
import type { SlotInput } from "../../../src/operator/plan/input.ts";
import { cold, input, observed, published, warm } from "../fixture.ts";

/** The status after a look at which the adapter says that a llama-server would be started. */
function protocols(given: SlotInput, outcome: Partial<Outcome> = {}): SlotStatus["protocols"] {
  const whole: Outcome = {
    observed: given.observed,
    health: given.health,
    stopping: [],
    draining: [],
    started: [],
    capabilities: ["chat"],
    protocols: ["messages"],
    served: "tiny",
    handledRequests: {},
    ...outcome,
  };
  return summarise(given, plan(given), whole, { firstMs: 1000, limitMs: 1000, random: () => 1 }).status.protocols;
}

const running = { observed: [observed()], health: { main: warm } };

test("an engine's protocols are published when it is started", () => {
  const started = { observed: [observed()], health: { main: cold }, started: [{ role: "main", ordinal: 0 } as const] };
  assert.deepEqual(protocols(input(), started), ["messages"]);
});

test("a running engine keeps its protocols, although another program would be started now", () => {
  const before = published({ protocols: ["responses"], workloadHash: "hash-1" });
  assert.deepEqual(protocols(input({ ...running, before })), ["responses"]);
});

test("observed protocols take precedence over the adapter's list", () => {
  const seen = { ...warm, protocols: ["responses"] as const };
  const before = published({ protocols: ["messages", "responses"], workloadHash: "hash-1" });
  assert.deepEqual(protocols(input({ ...running, health: { main: seen }, before })), ["responses"]);
  assert.deepEqual(protocols(input({ before, health: { main: seen } })), ["messages"], "not once it is gone");
});

const messages = [{ role: "user", content: "hi" }];
const countResponse = ["/v1/responses/input_tokens", { input: "hi" }];
const countMessage = ["/v1/messages/count_tokens", { messages }];

/** What an engine that has those routes is seen to speak, and what it was asked. */
async function asked(routes: Readonly<Record<string, "healthy" | number>>): Promise<readonly [unknown, unknown]> {
  const questions: unknown[] = [];
  const spoken = await spokenProtocols(
    async ({ path, body }) => {
      questions.push([path, body]);
      const answer = routes[path] ?? 404;
      return answer === "healthy" ? { outcome: answer } : { outcome: "failed", message: "", status: answer };
    },
    ["responses", "messages", "count_tokens"],
    { host: "127.0.0.1", port: 1, timeoutMs: 1, signal: AbortSignal.timeout(180_000) },
  );
  return [spoken, questions];
}

test("an engine's protocols are probed by requests that leave no warning in its log", async () => {
  const routes = { "/v1/responses/input_tokens": "healthy", "/v1/messages/count_tokens": "healthy" } as const;
  assert.deepEqual(await asked(routes), [
    ["responses", "messages", "count_tokens"],
    [countResponse, countMessage],
  ]);
});

test("a probe for counts has an empty body, and only a missing route means that a protocol is absent", async () => {
  assert.deepEqual(await asked({ "/v1/responses": 400, "/v1/messages": 405, "/v1/messages/count_tokens": 501 }), [
    ["responses"],
    [countResponse, ["/v1/responses", {}], countMessage, ["/v1/messages", {}]],
  ]);
});

test("an engine that does not answer the probe gets the protocols that its adapter declares", async () => {
  const silent = await spokenProtocols(
    () => Promise.resolve({ outcome: "failed", message: "no answer" }),
    ["messages"],
    { host: "127.0.0.1", port: 1, timeoutMs: 1, signal: AbortSignal.timeout(180_000) },
  );
  assert.deepEqual(silent, ["messages"]);
});

test("the next engine gets its own protocols", () => {
  const before = published({ protocols: ["responses"], workloadHash: "hash-0" });
  assert.deepEqual(protocols(input({ ...running, before }), { started: [{ role: "main", ordinal: 0 } as const] }), [
    "messages",
  ]);
  assert.deepEqual(protocols(input({ before })), ["messages"]);
});
