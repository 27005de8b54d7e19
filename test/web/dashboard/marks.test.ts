import assert from "node:assert/strict";
import { it } from "node:test";
import type { SlotDetail } from "../../../src/api/management/views.ts";
import { chartRows } from "../../../web/dashboard/chart-rows.ts";
import { loanLeft } from "../../../web/dashboard/loan-text.ts";
import { folded, marksOf } from "../../../web/dashboard/marks.ts";

type Transition = SlotDetail["transitions"][number];
const at = (second: number): string => new Date(second * 1000).toISOString();
const step = (second: number, from: Transition["from"], to: Transition["to"]): Transition => ({
  at: at(second),
  from,
  to,
  reason: "r",
  message: "m",
});

it("a chart marks loads, restarts and failures of its time, the newest first", () => {
  const slots = [
    {
      name: "a",
      transitions: [
        step(1, "offline", "ready"),
        step(100, "offline", "starting"),
        step(110, "warming", "ready"),
        step(120, "ready", "idle"),
        step(130, "idle", "ready"),
        step(140, "ready", "starting"),
        step(150, "starting", "error"),
      ],
    },
    { name: "b", transitions: [step(145, "starting", "ready"), step(160, "ready", "unloading")] },
  ];
  assert.deepEqual(
    marksOf(slots, 50).map((mark) => [mark.at, mark.slot, mark.what]),
    [
      [150, "a", "failed"],
      [145, "b", "loaded"],
      [140, "a", "restarted"],
      [110, "a", "loaded"],
    ],
  );
  assert.deepEqual(marksOf([], 0), []);
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

it("a chart as a table has a row a minute with the mean of what is known", () => {
  const rows = chartRows([60, 90, 125], [{ values: [2, 4, 8] }, { values: [null, null, 0.5] }]);
  assert.deepEqual(rows, [
    { at: 120, values: [8, 0.5] },
    { at: 60, values: [3, null] },
  ]);
  assert.deepEqual(chartRows([], []), []);
});

for (const [seconds, expected] of [
  [7200, "2h0m left"],
  [59.2, "1m0s left"],
  [0, "ends now"],
  [-5, "ends now"],
] as const)
  it(`a loan of ${seconds} more seconds is said to be: ${expected}`, () =>
    assert.equal(loanLeft(at(1000 + seconds), 1_000_000), expected));
