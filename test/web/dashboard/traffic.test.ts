import assert from "node:assert/strict";
import { it } from "node:test";
import { readingOf, trafficOf, withReading, type Reading, type Traffic } from "../../../web/dashboard/traffic.ts";

const page = (tokens: number, fine: number, bad: number): string => `# TYPE berth_requests_total counter
berth_requests_total{route="/v1/chat/completions",slot="coder",code="200"} ${fine}
berth_requests_total{route="/v1/chat/completions",slot="coder",code="499"} ${fine}
berth_requests_total{route="/v1/chat/completions",slot="coder",code="503"} ${bad}
berth_tokens_total{slot="coder",direction="in"} 999
berth_tokens_total{slot="coder",direction="out"} ${tokens}
`;

/** Reads them one after the other, as the page does. */
function read(pages: readonly (readonly [number, string])[]): { traffic: Traffic; readings: readonly Reading[] } {
  let readings: readonly Reading[] = [];
  let traffic: Traffic = { rates: new Map() };
  for (const [atMs, text] of pages) {
    readings = withReading(readings, readingOf(text, atMs));
    traffic = trafficOf(readings, traffic.rates);
  }
  return { traffic, readings };
}

it("the figures are those between readings: tokens a second, requests a minute, and the share of errors", () => {
  const none = read([[0, page(100, 50, 10)]]).traffic;
  assert.deepEqual(none, { rates: new Map() });
  const { traffic } = read([
    [0, page(100, 50, 10)],
    [2000, page(140, 52, 11)],
    [4000, page(140, 52, 11)],
  ]);
  assert.deepEqual(traffic.rates.get("coder"), [20, 0]);
  assert.equal(traffic.perMinute, 75);
  assert.equal(traffic.errorShare, 1 / 5);
  const idle = read([
    [0, page(1, 5, 1)],
    [2000, page(1, 5, 1)],
  ]).traffic;
  assert.equal(idle.perMinute, 0);
  assert.equal(idle.errorShare, undefined);
});

it("a gateway that has started anew is read anew, and of a long time only the last minute is kept", () => {
  const again = read([
    [0, page(100, 50, 10)],
    [2000, page(0, 0, 0)],
  ]);
  assert.equal(again.readings.length, 1);
  assert.equal(again.traffic.perMinute, undefined);
  const long = read(Array.from({ length: 2000 }, (_, at) => [at * 2000, page(at * 10, at, 0)] as const));
  assert.equal(long.readings.length, 31);
  assert.equal(long.traffic.rates.get("coder")?.length, 45);
  assert.equal(long.traffic.perMinute, 60);
});
