import assert from "node:assert/strict";
import { it } from "node:test";
import { numberBytes, putNumber } from "../../../src/gateway/telemetry/line-bytes.ts";

it("a number in a line is as JavaScript writes it", () => {
  const whole = Array.from({ length: 31 }, (_, power) => [2 ** power - 1, 2 ** power]).flat();
  const tens = Array.from({ length: 22 }, (_, power) => [10 ** power - 1, 10 ** power]).flat();
  const odd = [
    -1,
    -0,
    0.5,
    1.5,
    -1.2345678901234567e-6,
    -Number.MAX_VALUE,
    Number.MIN_VALUE,
    2 ** 31,
    2 ** 32 + 5,
    2 ** 53,
  ];
  for (const value of [...whole, ...tens, ...odd, Number.NaN, Infinity]) {
    const memory = Buffer.alloc(3 + numberBytes, "x");
    const end = putNumber(memory, 3, value);
    assert.equal(memory.toString("latin1", 0, end), `xxx${value}`);
    assert.match(memory.toString("latin1", end), /^x*$/, "nothing is written behind it");
  }
});
