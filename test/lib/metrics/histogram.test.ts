import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Histogram, Registry } from "prom-client";
import { MetricPage } from "../../../src/lib/metrics/page.ts";
import { fc } from "../../support/fast-check.ts";

const buckets = [0.005, 0.5, 1, 10];
const named = { name: "berth_seconds", help: "How long" };
const spec = { ...named, type: "histogram", labels: ["route", "slot"], buckets } as const;
const observation = fc.record({
  route: fc.constantFrom("/v1/chat/completions", "/v1/embeddings"),
  slot: fc.constantFrom("primary", 'odd "name"\\'),
  seconds: fc.oneof(fc.constantFrom(0, ...buckets), fc.double({ min: 0, max: 20, noNaN: true })),
  /** The page is read just after it, in that format. */
  read: fc.constantFrom(undefined, undefined, "text/plain", "application/openmetrics-text"),
});

describe("a histogram", () => {
  it("has the same page as prom-client's own, to the byte", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(observation, { maxLength: 30 }), async (observations) => {
        const theirs = new Registry();
        const own = new MetricPage();
        const plain = new Histogram({ ...named, buckets, labelNames: ["route", "slot"], registers: [theirs] });
        const histogram = own.histogram(spec);
        for (const { route, slot, seconds, read } of observations) {
          histogram.series({ route, slot }).observe(seconds);
          plain.observe({ route, slot }, seconds);
          if (read !== undefined) await own.render(read);
        }
        assert.equal(String((await own.render()).body), await theirs.metrics());
      }),
    );
  });

  it("shows nothing of a series that has seen nothing", async () => {
    const page = new MetricPage();
    page.histogram(spec).series({ route: "/v1/rerank", slot: "embed" });
    assert.equal(String((await page.render()).body), "# HELP berth_seconds How long\n# TYPE berth_seconds histogram\n");
  });

  it("has an example that came after the last page", async () => {
    const page = new MetricPage();
    const series = page.histogram({ ...spec, labels: ["slot"] }).series({ slot: "primary" });
    const read = async (): Promise<string> => String((await page.render("application/openmetrics-text")).body);
    series.observe(0.25);
    assert.doesNotMatch(await read(), /trace_id/);
    series.observeAs(0.25, "trace_id", "0af7651916cd43dd8448eb211c80319c");
    assert.match(await read(), /le="0.5",slot="primary"} 2 # \{trace_id="0af7651916cd43dd8448eb211c80319c"\} 0.25 /);
  });

  it("names a request of each bucket in the OpenMetrics format", async () => {
    const page = new MetricPage();
    const series = page.histogram({ ...spec, labels: ["slot"] }).series({ slot: "primary" });
    series.observeAs(0.25, "trace_id", "0af7651916cd43dd8448eb211c80319c");
    series.observeAs(0.3, "request_id", "a later one of the same second");
    series.observe(3);
    const { type, body } = await page.render("application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    assert.equal(type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert.equal(
      String(body).replaceAll(/ \d{10}\.\d{3}$/gm, " TIME"),
      [
        "# HELP berth_seconds How long",
        "# TYPE berth_seconds histogram",
        'berth_seconds_bucket{le="0.005",slot="primary"} 0',
        'berth_seconds_bucket{le="0.5",slot="primary"} 2 # {trace_id="0af7651916cd43dd8448eb211c80319c"} 0.25 TIME',
        'berth_seconds_bucket{le="1.0",slot="primary"} 2',
        'berth_seconds_bucket{le="10.0",slot="primary"} 3',
        'berth_seconds_bucket{le="+Inf",slot="primary"} 3',
        'berth_seconds_sum{slot="primary"} 3.55',
        'berth_seconds_count{slot="primary"} 3',
        "# EOF",
        "",
      ].join("\n"),
    );
    assert.doesNotMatch(String((await page.render("text/plain")).body), /trace_id|EOF/);
  });
});
