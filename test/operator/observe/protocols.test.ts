import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotStatus } from "../../../src/api/status.ts";
import { plan } from "../../../src/operator/plan/plan.ts";
import { spokenProtocols } from "../../../src/operator/observe/protocol-probe.ts";
import type { Outcome } from "../../../src/operator/report/outcome.ts";
import { summarise } from "../../../src/operator/report/summarise.ts";
import type { SlotInput } from "../../../src/operator/plan/input.ts";
import { cold, input, observed, outcomeOf, published, warm } from "../fixture.ts";

/** The status after a look at which the adapter says that a llama-server would be started. */
function protocols(given: SlotInput, outcome: Partial<Outcome> = {}): SlotStatus["protocols"] {
  const seen: Partial<Outcome> = { capabilities: ["chat"], protocols: ["messages"], served: "tiny" };
  const whole = outcomeOf(given, { ...seen, ...outcome });
  return summarise(given, plan(given), whole, { firstMs: 1000, limitMs: 1000, random: () => 1 }).status.protocols;
}

const running = { observed: [observed()], health: { main: warm } };

const started = [{ role: "main", ordinal: 0 }] as const;
const loadedOf = (hash: string, protocol: "messages" | "responses") =>
  published({ protocols: [protocol], workloadHash: hash });

test("an engine's protocols are published when it is started, also after another engine", () => {
  assert.deepEqual(protocols(input(), { observed: [observed()], health: { main: cold }, started }), ["messages"]);
  const before = loadedOf("hash-0", "responses");
  assert.deepEqual(protocols(input({ ...running, before }), { started }), ["messages"]);
  assert.deepEqual(protocols(input({ before })), ["messages"]);
});

test("a running engine keeps its protocols, although another program would be started now", () => {
  assert.deepEqual(protocols(input({ ...running, before: loadedOf("hash-1", "responses") })), ["responses"]);
});

test("observed protocols take precedence over the adapter's list", () => {
  const health = { main: { ...warm, protocols: ["responses"] as const } };
  const before = loadedOf("hash-1", "messages");
  assert.deepEqual(protocols(input({ ...running, health, before })), ["responses"]);
  assert.deepEqual(protocols(input({ before, health })), ["messages"], "not once it is gone");
});

const messages = [{ role: "user", content: "hi" }];
const countResponse = ["/v1/responses/input_tokens", { input: "hi" }];
const countMessage = ["/v1/messages/count_tokens", { messages }];

/** What an engine that has those routes is seen to speak, and what it was asked. Undefined: it does not answer. */
async function asked(routes?: Readonly<Record<string, "healthy" | number>>): Promise<readonly [unknown, unknown]> {
  const questions: unknown[] = [];
  const spoken = await spokenProtocols(
    async ({ path, body }) => {
      questions.push([path, body]);
      if (routes === undefined) return { outcome: "failed", message: "no answer" };
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
  assert.deepEqual((await asked())[0], ["responses", "messages", "count_tokens"]);
});
