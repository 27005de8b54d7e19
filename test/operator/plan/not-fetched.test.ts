import assert from "node:assert/strict";
import { it } from "node:test";
import type { SlotInput } from "../../../src/operator/plan/input.ts";
import { plan } from "../../../src/operator/plan/plan.ts";
import { input, observed, published, warm } from "../fixture.ts";

const workloads = { reason: "NotFetched", message: "m is not on this machine yet" } as const;
const model = { ref: "m", files: [{ source: "hf://owner/repo/m.gguf" }], isOpen: false };
const absent = { role: "main", state: "absent", message: "the model m is not on this machine", model } as const;
const fetching = {
  role: "main",
  state: "fetching",
  message: "the model m is being fetched",
  progress: { bytesDone: 1 },
  model,
} as const;
const refused = {
  role: "main",
  state: "failed",
  reason: "Unauthorized",
  message: "owner/repo asks for its terms to be accepted",
  isTerminal: true,
  model,
} as const;

function short(given: SlotInput): string {
  const { state, conditionSet, reason, steps } = plan(given);
  return `${state} ${conditionSet} ${reason} [${steps.map((step) => step.do).join(", ")}]`;
}

it("a model that is not here and can be fetched is fetched, and is no refusal", () => {
  assert.equal(short(input({ workloads, unprepared: absent })), "pulling progressing Pulling [fetch]");
  assert.equal(short(input({ workloads, unprepared: fetching })), "pulling progressing Pulling [wait]");
  assert.equal(short(input({ workloads, unprepared: refused })), "error stalled Unauthorized []");
});

it("a serving engine continues until the next model is here", () => {
  const serving = { workloads, before: published({}), observed: [observed({})], health: { main: warm } };
  assert.equal(short(input({ ...serving, unprepared: fetching })), "ready loadedProgressing Pulling [wait]");
  assert.equal(short(input({ ...serving, unprepared: refused })), "ready loadedStalled Unauthorized []");
});

it("a slot without requests is offline, not failed: the next request has its model fetched", () => {
  const want = { load: false, reason: "ScaledToZero", message: "no request needs it" } as const;
  assert.equal(short(input({ workloads, want })), "offline offline ScaledToZero []");
});
