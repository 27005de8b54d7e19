import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Circuits, type Permit } from "../../../src/gateway/providers/circuits.ts";

function setUp() {
  const clock = { ms: 0 };
  const circuits = new Circuits(() => clock.ms);
  const permit = (model: string): Permit => {
    const admitted = circuits.admit(model);
    return "retryAfterMs" in admitted ? assert.fail(`${model} is not asked`) : admitted;
  };
  const fail = (model: string, outcome: string, times: number): void => {
    for (let count = 0; count < times; count += 1) permit(model).fail(outcome);
  };
  const succeed = (model: string): void => permit(model).succeed();
  return { circuits, clock, fail, permit, succeed };
}

describe("circuits of a provider", () => {
  it("pause a model that keeps failing, and no other model", () => {
    for (const outcome of ["500", "timeout", "broken"]) {
      const { circuits, fail, succeed } = setUp();
      fail("bad", outcome, 5);
      assert.deepEqual(circuits.admit("bad"), { retryAfterMs: 10_000, of: "model" });
      succeed("good");
      assert.deepEqual([circuits.state, circuits.pausedModels], ["closed", 1]);
    }
  });

  it("pause the provider where it cannot be reached, whatever models were requested", () => {
    for (const outcome of ["unreachable", "502", "503", "504"]) {
      const { circuits, fail } = setUp();
      for (const model of "abcde") fail(model, outcome, 1);
      assert.deepEqual(circuits.admit("f"), { retryAfterMs: 10_000, of: "provider" });
      assert.deepEqual([circuits.state, circuits.pausedModels], ["open", 0]);
    }
  });

  it("count a model's failures of any kind, and from zero after a success", () => {
    const { circuits, fail, succeed } = setUp();
    fail("m", "500", 2);
    fail("m", "timeout", 2);
    succeed("m");
    fail("m", "500", 4);
    assert.equal(circuits.pausedModels, 0);
    fail("m", "timeout", 1);
    assert.equal(circuits.pausedModels, 1);
  });

  it("let one request for the model try after a while, for a minute at most", () => {
    const { circuits, clock, fail, permit } = setUp();
    fail("m", "500", 5);
    for (const retryAfterMs of [10_000, 20_000, 40_000, 60_000, 60_000]) {
      assert.deepEqual(circuits.admit("m"), { retryAfterMs, of: "model" });
      clock.ms += retryAfterMs;
      const trial = permit("m");
      assert.deepEqual(circuits.admit("m"), { retryAfterMs: 10_000, of: "model" });
      trial.fail("500");
    }
    clock.ms += 60_000;
    permit("m").succeed();
    assert.equal(circuits.pausedModels, 0);
    fail("m", "500", 4);
    assert.equal(circuits.pausedModels, 0);
  });

  it("keep a provider's own trial free when the model of the trial is left alone", () => {
    const { circuits, clock, fail, succeed } = setUp();
    fail("m", "500", 5);
    fail("other", "503", 5);
    clock.ms += 10_000;
    fail("m", "500", 1);
    assert.equal(circuits.state, "closed");
    assert.deepEqual(circuits.admit("m"), { retryAfterMs: 20_000, of: "model" });
    succeed("other");
  });
});
