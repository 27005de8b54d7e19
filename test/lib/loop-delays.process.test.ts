import assert from "node:assert/strict";
import { it } from "node:test";
import { collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { loopDelays, mendProcessMetrics } from "../../src/lib/loop-delays.ts";
import { until } from "../support/until.ts";

it("loopDelays measures the lateness of the event loop, not the time between two samples", async () => {
  const delays = loopDelays(20);
  const read = (): Record<string, number | undefined> =>
    Object.fromEntries(delays.map(({ name, read: value }) => [name.slice("nodejs_eventloop_lag_".length), value()]));
  assert.equal(read()["mean_seconds"], undefined, "nothing was sampled yet");
  // 20 ms and more where the time between two samples counted.
  await until("a loop at rest is seen", () => {
    const { min_seconds: least } = read();
    return least !== undefined && least < 0.01;
  });
  await until("a loop that is held up is seen", async () => {
    const end = performance.now() + 200;
    while (performance.now() < end);
    await new Promise((resolve) => setTimeout(resolve, 1));
    const { seconds: last = 0, max_seconds: most = 0 } = read();
    return most > 0.1 && last > 0.1;
  });
});

it("a page has the delays in the place of prom-client's figures, and none of its misnamed gauges", async () => {
  const page = new Registry();
  collectDefaultMetrics({ register: page });
  mendProcessMetrics(page, (gauge) => new Gauge({ ...gauge, registers: [page] }));
  const text = await page.metrics();
  assert.match(
    text,
    /^# HELP nodejs_eventloop_lag_mean_seconds The mean delay of the event loop since the last scrape$/m,
  );
  assert.match(text, /^# HELP nodejs_eventloop_lag_seconds The last delay of the event loop$/m);
  assert.match(text, /^nodejs_active_handles\b/m);
  assert.doesNotMatch(text, /nodejs_active_\w+_total/);
});
