import assert from "node:assert/strict";
import { it } from "node:test";
import { steadyNow, wallTimeOf } from "../../src/lib/steady-clock.ts";

it("wallTimeOf gives a moment the same time always, until the wall clock is set", (test) => {
  const moment = steadyNow();
  const real = Date.now;
  const first = wallTimeOf(moment).getTime();
  assert.ok(Math.abs(first - real()) < 250);
  test.mock.method(Date, "now", () => real() + 100);
  assert.equal(wallTimeOf(moment).getTime(), first);
  for (const setMs of [3_600_000, -3_600_000]) {
    test.mock.method(Date, "now", () => real() + setMs);
    assert.ok(Math.abs(wallTimeOf(moment).getTime() - first - setMs) < 250);
  }
});
