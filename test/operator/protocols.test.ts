import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotStatus } from "../../src/api/status.ts";
import { plan } from "../../src/operator/plan.ts";
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

test("one that replaces it brings its own", () => {
  const before = published({ protocols: ["responses"], workloadHash: "hash-0" });
  assert.deepEqual(protocols(input({ ...running, before }), { started: 1 }), ["messages"]);
  assert.deepEqual(protocols(input({ before })), ["messages"]);
});
