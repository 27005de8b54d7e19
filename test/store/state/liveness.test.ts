import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { bootId } from "../../../src/lib/boot-id.ts";
import { LivenessWatch, type Heartbeat, type Liveness } from "../../../src/store/state/liveness.ts";

const start = Date.parse("2026-11-22T12:00:00.000Z");

/** A look of one reader: its time since the start, how far the wall clock was set by then, and the heartbeat that it sees. */
interface Look {
  readonly at?: number;
  readonly setBy?: number;
  readonly sees: Heartbeat;
  readonly is: Liveness;
}

const time = (ms: number): string => new Date(start + ms).toISOString();
const beat = (count: number, incarnation = "i") => ({ incarnation, beat: count });
const here = (ms: number, more: Partial<Heartbeat> = {}): Heartbeat => ({
  heartbeat: time(ms),
  bootId: bootId(),
  ...beat(1),
  ...more,
});
const elsewhere = (ms: number, more: Partial<Heartbeat> = {}): Heartbeat => here(ms, { bootId: "another", ...more });
const year = 365 * 24 * 3_600_000;

const cases: Readonly<Record<string, readonly Look[]>> = {
  "of this boot is trusted at first where its time is fresh": [{ sees: here(-4000), is: "live" }],
  "of this boot is not trusted at first where its time is old": [{ sees: here(-6000), is: "stale" }],
  "of this boot is not trusted at first where a clock was set back since": [{ sees: here(6000), is: "stale" }],
  "of another machine, or of before a reboot, is unproven until its heartbeat is seen to change": [
    { sees: elsewhere(0, beat(1)), is: "unproven" },
    { at: 60_000, sees: elsewhere(0, beat(1)), is: "unproven" },
    { at: 60_000, sees: elsewhere(1000, beat(2)), is: "live" },
  ],
  "is live by this reader's clock, however far the publisher's is off": [
    { sees: elsewhere(-year, beat(1)), is: "unproven" },
    { sees: elsewhere(-year, beat(2)), is: "live" },
    { at: 4999, setBy: year, sees: elsewhere(-year, beat(2)), is: "live" },
    { at: 5000, setBy: -year, sees: elsewhere(-year, beat(2)), is: "stale" },
  ],
  "is live by its count, where the clock of its time was set back to the same time": [
    { sees: here(0, beat(1)), is: "live" },
    { at: 20_000, sees: here(0, beat(2)), is: "live" },
  ],
  "is live after another start, although the count begins again": [
    { sees: elsewhere(0, beat(1)), is: "unproven" },
    { sees: elsewhere(0, beat(1, "j")), is: "live" },
  ],
};

describe("a publisher", () => {
  for (const [title, looks] of Object.entries(cases))
    it(title, () => {
      let [elapsedMs, setByMs] = [0, 0];
      const clocks = { now: () => new Date(start + elapsedMs + setByMs), elapsedMs: () => elapsedMs };
      const watch = new LivenessWatch(clocks);
      for (const { at = 0, setBy = 0, sees, is } of looks) {
        [elapsedMs, setByMs] = [at, setBy];
        watch.note(new Map([["a", sees]]));
        assert.equal(watch.of("a", sees), is);
      }
    });

  it("that was gone counts as new when it returns", () => {
    const watch = new LivenessWatch({ now: () => new Date(start), elapsedMs: () => 0 });
    for (const sees of [elsewhere(0), elsewhere(1000, beat(2))]) watch.note(new Map([["a", sees]]));
    watch.note(new Map());
    watch.note(new Map([["a", elsewhere(2000, beat(3))]]));
    assert.equal(watch.of("a", elsewhere(2000, beat(3))), "unproven");
  });
});
