import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { TrafficView } from "../../../src/api/management/traffic-view.ts";
import {
  figureOf,
  firstToken,
  firstTokens,
  joined,
  shownSteps,
  withQuiet,
} from "../../../web/dashboard/traffic-steps.ts";

type Series = TrafficView["series"][number];

const at = (seconds: number): string => new Date(Date.parse("2026-11-28T12:00:00Z") + seconds * 1000).toISOString();

function series(
  slot: string,
  tokens: readonly number[],
  first: Series["first_token_ms"] = tokens.map(() => null),
): Series {
  const none = tokens.map(() => 0);
  return {
    slot,
    requests: none,
    errors: none,
    tokens_in: none,
    tokens_out: [...tokens],
    in_flight: none,
    waiting: none,
    first_token_ms: [...first],
  };
}

const view = (seconds: number, steps: number, ...all: Series[]): TrafficView => ({
  step_seconds: 5,
  ended_at: at(seconds),
  steps,
  series: all,
});

describe("the history of the charts", () => {
  it("goes on with a step of an event, over the quiet steps that had none", () => {
    const before = view(10, 2, series("a", [1, 2]));
    const now = joined(before, view(25, 1, series("b", [7])));
    assert.deepEqual([now.steps, now.ended_at], [5, at(25)]);
    assert.deepEqual(
      now.series.map(({ slot, tokens_out: tokens }) => [slot, tokens]),
      [
        ["a", [1, 2, 0, 0, 0]],
        ["b", [0, 0, 0, 0, 7]],
      ],
    );
  });

  it("takes no step twice, and keeps fifteen minutes", () => {
    const before = view(10, 1, series("a", [1]));
    assert.equal(joined(before, view(10, 1, series("a", [9]))), before);
    const late = joined(before, view(10 + 5 * 500, 1, series("a", [3])));
    assert.equal(late.steps, shownSteps);
    assert.deepEqual(late.series[0]?.tokens_out.slice(-2), [0, 3]);
    assert.equal(late.series[0]?.tokens_out.length, shownSteps);
  });

  it("takes all steps that came before it was read itself, and no more", () => {
    const now = joined(
      view(10, 2, series("a", [1, 2])),
      view(25, 4, series("a", [8, 3, 4, 5]), series("b", [8, 6, 0, 7])),
    );
    assert.deepEqual(
      now.series.map(({ slot, tokens_out: tokens }) => [slot, tokens]),
      [
        ["a", [1, 2, 3, 4, 5]],
        ["b", [0, 0, 6, 0, 7]],
      ],
    );
  });

  it("comes to rest where no step comes any more", () => {
    const before = view(10, 2, series("a", [1, 2]));
    assert.equal(withQuiet(before, 4900), before);
    assert.deepEqual(withQuiet(before, 15_100).series[0]?.tokens_out, [1, 2, 0, 0, 0]);
    assert.equal(withQuiet(before, 15_100).ended_at, at(25));
    const fortnight = withQuiet(before, 14 * 86_400_000);
    assert.deepEqual([fortnight.steps, fortnight.series[0]?.requests.length], [shownSteps, shownSteps]);
  });

  it("is drawn to its full width however short it is, for one slot or for all", () => {
    const known = view(10, 2, series("a", [1, 2]), series("b", [10, 20]));
    assert.deepEqual(figureOf(known, "tokens_out", "a").slice(-3), [0, 1, 2]);
    assert.deepEqual(figureOf(known, "tokens_out").slice(-3), [0, 11, 22]);
    assert.equal(figureOf(undefined, "tokens_out").length, shownSteps);
  });

  it("has the first token of all streams, each of which counts the same, and none where no stream ended", () => {
    const known = view(
      10,
      2,
      series("a", [1, 1], [null, { p50: 5, p95: 9, count: 3 }]),
      series(
        "b",
        [1, 1],
        [
          { p50: 100, p95: 100, count: 1 },
          { p50: 7, p95: 8, count: 1 },
        ],
      ),
    );
    assert.deepEqual(firstTokens(known, "p50").slice(-3), [null, 100, 5]);
    assert.deepEqual(firstTokens(known, "p95", "b").slice(-3), [null, 100, 8]);
    assert.deepEqual([firstToken(known, "p50"), firstToken(known, "p95")], [5, 100]);
    assert.equal(firstToken(view(10, 2, series("a", [1, 2])), "p50"), null);
  });
});
