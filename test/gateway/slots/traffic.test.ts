import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Traffic } from "../../../src/gateway/slots/traffic.ts";

describe("requests that a slot does not serve", () => {
  it("are published at once with the first of them, and those that follow it within a second with the heartbeat", () => {
    const told: string[] = [];
    const traffic = new Traffic((slot) => told.push(slot));
    for (const slot of ["a", "b"]) for (let ms = 50; ms < 2050; ms += 10) traffic.requested(slot, ms);
    assert.deepEqual(told, ["a", "b"]);
    assert.equal(traffic.of("a").lastRequestAt, 2040);
    traffic.requested("a", 3040);
    assert.deepEqual(told, ["a", "b", "a"]);
  });
});
