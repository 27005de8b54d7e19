import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { everySecond } from "../../src/lib/pulse.ts";
import { steadyNow, wallTimeOf } from "../../src/lib/steady-clock.ts";

/** In steps: the mocked clock stands at the end of a step already while what fell due in it is done. */
function pass(ms: number): void {
  for (let past = 0; past < ms; past += 100) mock.timers.tick(100);
}

test("periodic work runs together, on the second, until it is disposed of", () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: 10_300 });
  try {
    const seen: string[] = [];
    const note = (what: string) => () => void seen.push(`${what} ${Date.now()}`);
    const one = everySecond(note("one"));
    pass(400);
    const other = everySecond(note("other"));
    pass(1400);
    assert.deepEqual(seen.splice(0), ["one 11000", "other 11000", "one 12000", "other 12000"]);
    one[Symbol.dispose]();
    pass(1000);
    assert.deepEqual(seen.splice(0), ["other 13000"]);
    other[Symbol.dispose]();
    pass(5000);
    assert.deepEqual(seen, []);
    const again = everySecond(note("again"));
    pass(1000);
    again[Symbol.dispose]();
    assert.deepEqual(seen, ["again 19000"]);
  } finally {
    mock.timers.reset();
  }
});

test("wallTimeOf gives a moment the same time always, until the wall clock is set", (context) => {
  const real = Date.now;
  // Read on both sides of the moment: a busy machine may stand still between any two lines.
  const earliest = real();
  const moment = steadyNow();
  const latest = real();
  const first = wallTimeOf(moment).getTime();
  assert.ok(first > earliest - 250 && first < latest + 250);
  context.mock.method(Date, "now", () => real() + 100);
  assert.equal(wallTimeOf(moment).getTime(), first);
  for (const setMs of [3_600_000, -3_600_000]) {
    context.mock.method(Date, "now", () => real() + setMs);
    assert.ok(Math.abs(wallTimeOf(moment).getTime() - first - setMs) < 250);
  }
});

test("wallTimeOf gives a moment the same time although the process has stood still between its readings", (context) => {
  const moment = steadyNow();
  const first = wallTimeOf(moment).getTime();
  const real = Date.now;
  let lateMs = 0;
  const clock = performance.now.bind(performance);
  context.mock.method(performance, "now", () => clock() + lateMs);
  // The second clock is read half a second later than the first one, once.
  const read = context.mock.method(Date, "now", () => {
    const time = real() + lateMs;
    if (read.mock.callCount() === 0) lateMs = 500;
    return time;
  });
  assert.equal(wallTimeOf(moment).getTime(), first);
  assert.equal(read.mock.callCount(), 2);
});
