import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Circuit, type CircuitPermit } from "../../../src/gateway/providers/circuit.ts";
import { fc } from "../../support/fast-check.ts";

const options = { failures: 3, openMs: 1000, maxOpenMs: 4000 };

/** A circuit on a clock that a test moves. */
function setUp(): {
  circuit: Circuit;
  clock: { ms: number };
  permit: () => CircuitPermit;
  failTimes: (count: number) => void;
} {
  const clock = { ms: 0 };
  const circuit = new Circuit(options, () => clock.ms);
  const permit = (): CircuitPermit => {
    const admitted = circuit.admit();
    assert.ok(typeof admitted !== "number", "admitted");
    return admitted;
  };
  return { circuit, clock, permit, failTimes: (count) => Array.from({ length: count }, () => permit().fail()) };
}

describe("circuit", () => {
  it("opens at the last of so many failures in a row, of which a client that left is none", () => {
    const { circuit, failTimes, permit } = setUp();
    failTimes(2);
    permit().succeed();
    failTimes(2);
    permit().abandon();
    assert.equal(circuit.state, "closed");
    failTimes(1);
    assert.equal(circuit.state, "open");
    assert.equal(circuit.admit(), 1000);
  });

  it("stays open twice as long after every failed trial, up to a bound, and begins anew after a success", () => {
    const { circuit, clock, failTimes, permit } = setUp();
    failTimes(3);
    for (const openMs of [1000, 2000, 4000, 4000]) {
      assert.equal(circuit.admit(), openMs);
      clock.ms += openMs;
      permit().fail();
    }
    clock.ms += 4000;
    permit().abandon();
    permit().succeed();
    assert.equal(circuit.state, "closed", "a trial whose client left leaves it to the next request");
    failTimes(3);
    assert.equal(circuit.admit(), 1000);
  });

  it("ignores results of requests that began in an earlier state", () => {
    const { circuit, clock, failTimes, permit } = setUp();
    const early = [permit(), permit()];
    failTimes(3);
    clock.ms = 1000;
    const trial = permit();
    early[0]?.succeed();
    early[1]?.fail();
    assert.equal(circuit.state, "halfOpen");
    trial.succeed();
    assert.equal(circuit.state, "closed");
  });

  it("counts each permit once", () => {
    const { circuit, permit } = setUp();
    const one = permit();
    for (let index = 0; index < 5; index++) one.fail();
    assert.equal(circuit.state, "closed");
  });

  it("never runs two trials at once or a trial too early, and always closes again", () => {
    const moves = fc.array(
      fc.oneof(
        fc.record({ kind: fc.constant("admit" as const) }),
        fc.record({
          kind: fc.constantFrom("succeed" as const, "fail" as const, "abandon" as const),
          which: fc.nat(20),
        }),
        fc.record({ kind: fc.constant("wait" as const), ms: fc.nat(5000) }),
      ),
      { maxLength: 200, size: "max" },
    );
    fc.assert(
      fc.property(moves, (steps) => {
        const { circuit, clock } = setUp();
        const under: CircuitPermit[] = [];
        let trial: CircuitPermit | undefined;
        let mayTryAt = 0;
        for (const step of steps) {
          const before = circuit.state;
          if (step.kind === "wait") clock.ms += step.ms;
          else if (step.kind === "admit") {
            const admitted = circuit.admit();
            if (typeof admitted === "number") {
              assert.ok(admitted > 0 && admitted <= options.maxOpenMs);
              assert.notEqual(before, "closed");
              continue;
            }
            if (before !== "closed") {
              assert.equal(before, "open", "one trial at a time");
              assert.ok(clock.ms >= mayTryAt, "not before its time");
              trial = admitted;
            }
            under.push(admitted);
          } else {
            const [one] = under.splice(step.which % Math.max(1, under.length), 1);
            one?.[step.kind]();
            if (one !== undefined && one === trial) trial = undefined;
            if (before !== "open" && circuit.state === "open" && step.kind === "fail")
              mayTryAt = clock.ms + options.openMs;
          }
        }
        trial?.abandon();
        clock.ms += options.maxOpenMs;
        const last = circuit.admit();
        assert.ok(typeof last !== "number", "it is asked again in the end");
        last.succeed();
        assert.equal(circuit.state, "closed");
      }),
    );
  });
});
