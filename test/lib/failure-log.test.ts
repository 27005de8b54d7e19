import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FailureLog } from "../../src/lib/failure-log.ts";

describe("Outage", () => {
  it("reports a lasting failure when it begins, each minute, and when it ends", () => {
    const told: string[] = [];
    let now = 0;
    const failureLog = new FailureLog({
      onFailing: (error) => told.push(String(error)),
      onEnd: () => told.push("ended"),
      now: () => now,
    });
    failureLog.succeeded();
    assert.deepEqual(told, []);
    for (; now < 61_000; now += 1000) failureLog.failed(`full at ${now}`);
    assert.deepEqual(told, ["full at 0", "full at 60000"]);
    failureLog.succeeded();
    failureLog.succeeded();
    assert.deepEqual(told.splice(0), ["full at 0", "full at 60000", "ended"]);
    failureLog.failed("full again");
    assert.deepEqual(told, ["full again"]);
  });
});
