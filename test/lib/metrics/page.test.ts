import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MetricPage } from "../../../src/lib/metrics/page.ts";

const requests = { name: "berth_requests_total", type: "counter", help: "Requests", labels: ["slot"] } as const;
const states = { name: "berth_state", type: "gauge", help: "States", labels: ["slot"] } as const;

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

  it("yields to other work while it is written", async () => {
    const page = new MetricPage();
    page.read(states, function* () {
      for (let nth = 0; nth < 2000; nth += 1) {
        // The work of a large page, whatever machine this is.
        if (nth % 200 === 0) for (const until = performance.now() + 3; performance.now() < until;);
        yield [`slot="s${nth}"`, 1];
      }
    });
    let turns = 0;
    const other = setInterval(() => (turns += 1), 0);
    const { body } = await page.render();
    clearInterval(other);
    assert.equal(String(body).split("\n").length, 2003);
    assert.ok(turns >= 5, `${turns} turns of other work`);
  });

  it("is made once for concurrent scrapes", async () => {
    const page = new MetricPage();
    let reads = 0;
    page.read(states, () => {
      reads += 1;
      return [];
    });
    await Promise.all([page.render(), page.render(), page.render()]);
    assert.equal(reads, 1);
    await page.render();
    assert.equal(reads, 2);
  });

  it("refuses a second family of a name", () => {
    const page = new MetricPage();
    page.values(requests);
    assert.throws(() => page.values(requests), /berth_requests_total/);
  });
});
