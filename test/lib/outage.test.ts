import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Outage } from "../../src/lib/outage.ts";

describe("Outage", () => {
  it("tells a failure that lasts when it begins, each minute, and when it ends", () => {
    const told: string[] = [];
    let now = 0;
    const outage = new Outage({
      onFailing: (error) => told.push(String(error)),
      onEnd: () => told.push("ended"),
      now: () => now,
    });
    outage.succeeded();
    assert.deepEqual(told, []);
    for (; now < 61_000; now += 1000) outage.failed(`full at ${now}`);
    assert.deepEqual(told, ["full at 0", "full at 60000"]);
    outage.succeeded();
    outage.succeeded();
    assert.deepEqual(told.splice(0), ["full at 0", "full at 60000", "ended"]);
    outage.failed("full again");
    assert.deepEqual(told, ["full again"]);
  });
});
