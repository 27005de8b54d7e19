import assert from "node:assert/strict";
import { it } from "node:test";
import { byAge } from "../../../web/chat/ages.ts";

it("conversations stand under the day that they were last continued, by the calendar of the person", () => {
  const now = new Date(2026, 10, 28, 9, 0);
  const at = (day: number, hour: number): { readonly updated_at: string } => ({
    updated_at: new Date(2026, 10, day, hour).toISOString(),
  });
  const all = [at(28, 8), at(27, 23), at(27, 1), at(26, 12), at(21, 12), at(19, 1), at(29, 1)];
  assert.deepEqual(
    byAge(all, now).map(([age, some]) => [age, some.length]),
    [
      ["Today", 2],
      ["Yesterday", 2],
      ["Last 7 days", 2],
      ["Older", 1],
    ],
  );
  const pinned = { ...at(1, 1), pinned: true };
  assert.deepEqual(byAge([at(28, 8), pinned], now), [
    ["Pinned", [pinned]],
    ["Today", [at(28, 8)]],
  ]);
  assert.deepEqual(byAge([at(1, 1)], now), [["Older", [at(1, 1)]]]);
});
