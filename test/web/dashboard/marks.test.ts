import assert from "node:assert/strict";
import { it } from "node:test";
import type { SlotDetail } from "../../../src/api/management/views.ts";
import { chartRows } from "../../../web/dashboard/chart-rows.ts";
import { providerColour, slotColour } from "../../../web/dashboard/colours.ts";
import { failureText } from "../../../web/dashboard/failures.ts";
import { loanLeft } from "../../../web/dashboard/loan-text.ts";
import { folded, lastMarks, marksOf } from "../../../web/dashboard/marks.ts";
import { merged } from "../../../web/dashboard/merged-marks.ts";

type Transition = SlotDetail["transitions"][number];
const at = (second: number): string => new Date(second * 1000).toISOString();
const step = (second: number, from: Transition["from"], to: Transition["to"]): Transition => ({
  at: at(second),
  from,
  to,
  reason: "r",
  message: "m",
});

it("the chart of a slot marks its loads, restarts and failures of that time, the newest first", () => {
  const transitions = [
    step(1, "offline", "ready"),
    step(100, "offline", "starting"),
    step(110, "warming", "ready"),
    step(120, "ready", "idle"),
    step(130, "idle", "ready"),
    step(140, "ready", "starting"),
    step(150, "starting", "error"),
    step(160, "error", "unloading"),
  ];
  assert.deepEqual(
    marksOf({ name: "a", transitions }, 50).map((mark) => [mark.at, mark.slot, mark.what]),
    [
      [150, "a", "failed"],
      [140, "a", "restarted"],
      [110, "a", "loaded"],
    ],
  );
});

it("the chart of all slots marks the last load of those that are loaded, and the last failures", () => {
  const available = (second: number, status: "True" | "False" = "True") => ({
    type: "Available",
    status,
    observedGeneration: 1,
    lastTransitionTime: at(second),
    reason: "r",
    message: "m",
  });
  const failure = (second: number) => ({ reason: "r", message: "m", time: at(second) });
  const slots: Parameters<typeof lastMarks>[0] = [
    { name: "old", conditions: [available(1)], last_error: failure(2) },
    { name: "a", conditions: [available(110)], last_error: failure(100) },
    { name: "b", conditions: [available(120, "False")], last_error: failure(130) },
    { name: "c", conditions: [], last_error: null },
  ];
  assert.deepEqual(lastMarks(slots, 50), [
    { at: 130, slot: "b", what: "failed" },
    { at: 110, slot: "a", what: "loaded" },
    { at: 100, slot: "a", what: "failed" },
  ]);
});

it("marks of a chart that are too close are one: the worst, with how many they are", () => {
  const marks = [
    { x: 30, what: "loaded" },
    { x: 8, what: "failed" },
    { x: 0, what: "loaded" },
    { x: 9, what: "restarted" },
  ] as const;
  assert.deepEqual(merged(marks, 8), [
    { x: 0, what: "failed", count: 2 },
    { x: 9, what: "restarted", count: 1 },
    { x: 30, what: "loaded", count: 1 },
  ]);
});

it("a provider, and a slot that is not known, have no slot's colour", () => {
  const colours = [slotColour(undefined), ...[0, 1, 2, 3].map(providerColour)];
  assert.deepEqual(colours, ["slot-other", "provider-0", "provider-1", "provider-2", "provider-0"]);
});

it("a slot that fails again and again is told once, with how often", () => {
  const mark = (at: number, slot: string, what: "failed" | "loaded") => ({ at, slot, what });
  assert.deepEqual(
    folded([mark(9, "a", "failed"), mark(8, "b", "loaded"), mark(7, "a", "failed"), mark(6, "a", "loaded")]),
    [
      { at: 9, slot: "a", what: "failed", times: 2 },
      { at: 8, slot: "b", what: "loaded", times: 1 },
      { at: 6, slot: "a", what: "loaded", times: 1 },
    ],
  );
});

it("a failure is told with when and how often, of a slot that has recovered within a day alone", () => {
  const now = 90_000_000;
  const recent = (second: number, count: number) => ({
    count,
    since: at(1),
    time: at(second),
    reason: "r",
    message: "m",
  });
  const error = { reason: "r", message: "m", time: at(10) };
  const told = (state: "error" | "ready" | "starting", recent_failures: ReturnType<typeof recent> | null) =>
    failureText({ state, recent_failures, last_error: error }, now);
  assert.equal(told("error", recent(90_000 - 840, 3)), "failed 14 min ago, 3 times in 24 h");
  assert.equal(told("ready", recent(90_000 - 840, 1)), "failed 14 min ago");
  assert.equal(told("error", null), `failed ${new Date(at(10)).toLocaleDateString()}`);
  assert.equal(told("ready", null), undefined);
  assert.equal(told("starting", recent(90_000 - 840, 3)), "failed 14 min ago, 3 times in 24 h, tries again");
});

it("a chart as a table has a row a minute with the mean of what is known", () => {
  const rows = chartRows([60, 90, 125], [{ values: [2, 4, 8] }, { values: [null, null, 0.5] }]);
  assert.deepEqual(rows, [
    { at: 120, values: [8, 0.5] },
    { at: 60, values: [3, null] },
  ]);
  assert.deepEqual(chartRows([], []), []);
});

for (const [seconds, expected] of [
  [7200, "2 h 0 min left"],
  [59.2, "1 min 0 s left"],
  [4, "4 s left"],
  [0, "ends now"],
  [-5, "ends now"],
] as const)
  it(`a loan of ${seconds} more seconds is said to be: ${expected}`, () =>
    assert.equal(loanLeft(at(1000 + seconds), 1_000_000), expected));
