import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MetricPage } from "../../../src/lib/metrics/page.ts";

const requests = { name: "berth_requests_total", type: "counter", help: "Requests", labels: ["slot"] } as const;

describe("a metric page", () => {
  it("names a counter's family in OpenMetrics without its suffix", async () => {
    const page = new MetricPage();
    page.values(requests).add({ slot: "primary" }, 2);
    assert.equal(
      String((await page.render("application/openmetrics-text")).body),
      '# HELP berth_requests Requests\n# TYPE berth_requests counter\nberth_requests_total{slot="primary"} 2\n# EOF\n',
    );
    assert.equal(
      String((await page.render()).body),
      '# HELP berth_requests_total Requests\n# TYPE berth_requests_total counter\nberth_requests_total{slot="primary"} 2\n',
    );
  });

  it("refuses a second family of a name", () => {
    const page = new MetricPage();
    page.values(requests);
    assert.throws(() => page.values(requests), /berth_requests_total/);
  });
});
