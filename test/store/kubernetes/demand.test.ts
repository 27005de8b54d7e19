import assert from "node:assert/strict";
import { it } from "node:test";
import { ApiError } from "../../../src/lib/kubernetes/api-error.ts";
import { openDemandLease } from "../../../src/store/kubernetes/demand.ts";
import { ApiDouble } from "../../doubles/api-client.ts";

it("demand is written five times a second at most, also while the API server refuses it", async () => {
  using api = new ApiDouble();
  const triedMs: number[] = [];
  api.before = (method) => {
    if (method !== "PATCH") return;
    triedMs.push(performance.now());
    throw new ApiError(500, "InternalError", "no room");
  };
  await using writer = openDemandLease(api, "g");
  for (const inFlight of [1, 2, 3]) {
    const slots = { chat: { held: 0, inFlight, seenRevision: 1, endpoints: [] } };
    await assert.rejects(writer.write({ sendsBearers: true, slots }), /no room/);
  }
  const gaps = triedMs.map((at, index) => Math.round(at - (triedMs[index - 1] ?? -Infinity)));
  assert.equal(gaps.length, 3);
  assert.ok(Math.min(...gaps) >= 190, `${gaps.join(", ")} ms between the attempts`);
});
