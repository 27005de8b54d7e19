import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FailureThrottle } from "../../../src/gateway/auth/throttle.ts";

describe("throttle of failures", () => {
  it("counts per peer and window, and logs once when it begins", () => {
    let now = 1000;
    const throttle = new FailureThrottle({ failureLimit: 2, windowMs: 10_000, now: () => now });
    assert.equal(throttle.failed("a"), undefined);
    now += 4000;
    assert.equal(throttle.failed("a"), undefined);
    assert.deepEqual(throttle.failed("a"), { retryAfterSeconds: 6, isFirst: true });
    assert.deepEqual(throttle.failed("a"), { retryAfterSeconds: 6, isFirst: false });
    assert.equal(throttle.failed("b"), undefined, "another peer is not its neighbour's keeper");
    now += 5999;
    assert.deepEqual(throttle.failed("a"), { retryAfterSeconds: 1, isFirst: false });
    now += 1;
    assert.equal(throttle.failed("a"), undefined, "a new window");
  });

  it("forgets the peer whose last failure is the oldest, so that its size stays bounded", () => {
    const throttle = new FailureThrottle({ failureLimit: 1, peerLimit: 3, now: () => 0 });
    for (const peer of ["a", "b", "c"]) throttle.failed(peer);
    assert.ok(throttle.failed("a"), "seen again, and so the youngest");
    throttle.failed("d");
    assert.equal(throttle.size, 3);
    assert.ok(throttle.failed("a"));
    assert.equal(throttle.failed("b"), undefined, "b was forgotten");
    for (let peer = 0; peer < 100_000; peer++) throttle.failed(`peer ${peer}`);
    assert.equal(throttle.size, 3);
  });
});
