import assert from "node:assert/strict";
import { it } from "node:test";
import { shareOf, type ShownWindow } from "../../../web/dashboard/share.ts";

const windows = (count: number): readonly ShownWindow[] =>
  Array.from({ length: count }, (_, at) => ({ id: `w${at}`, hasLog: true, usedAt: 1000 - at }));
/** What each has open, the window that was used last first. */
const shares = (all: readonly ShownWindow[]): readonly string[] =>
  all.map((own) => {
    const { events, log } = shareOf(
      own,
      all.filter((each) => each !== own),
    );
    return `${events ? "events" : ""}${log ? " log" : ""}`;
  });

it("windows that are shown leave one of the browser's six connections, and give up their logs first", () => {
  const both = "events log";
  assert.deepEqual(shares(windows(1)), [both]);
  assert.deepEqual(shares(windows(2)), [both, both]);
  assert.deepEqual(shares(windows(3)), [both, both, "events"]);
  assert.deepEqual(shares(windows(4)), [both, "events", "events", "events"]);
  assert.deepEqual(shares(windows(5)), Array(5).fill("events"));
  assert.deepEqual(shares(windows(7)), [...Array(5).fill("events"), "", ""]);
});

it("a window without a log leaves its connection to another window's", () => {
  const [first, ...rest] = windows(3);
  assert.ok(first !== undefined);
  assert.deepEqual(shares([{ ...first, hasLog: false }, ...rest]), ["events", "events log", "events log"]);
});

it("windows that were used at the same time agree on their order", () => {
  const all = windows(3).map((each) => ({ ...each, usedAt: 1 }));
  assert.deepEqual(shares(all), shares(windows(3)));
});
