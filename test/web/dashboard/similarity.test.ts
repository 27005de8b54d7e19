import assert from "node:assert/strict";
import { it } from "node:test";
import { similaritiesOf } from "../../../web/dashboard/playground/similarity.ts";

it("the similarity of vectors is the cosine of their angle, whatever their lengths", () => {
  const found = similaritiesOf([
    [1, 0],
    [3, 3],
    [0, -2],
    [0, 0],
  ]);
  const shown = found.map((row) => row.map((value) => value.toFixed(3).replace("-0.000", "0.000")).join(" "));
  assert.deepEqual(shown, [
    "1.000 0.707 0.000 0.000",
    "0.707 1.000 -0.707 0.000",
    "0.000 -0.707 1.000 0.000",
    "0.000 0.000 0.000 0.000",
  ]);
});
