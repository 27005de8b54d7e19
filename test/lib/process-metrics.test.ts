import assert from "node:assert/strict";
import { it } from "node:test";
import { Registry } from "prom-client";
import { collectProcessMetrics } from "../../src/lib/process-metrics.ts";
import { until } from "../support/until.ts";

it("the event loop's delays are told without the time between two samples", { timeout: 20_000 }, async () => {
  const register = new Registry();
  collectProcessMetrics(register, 10);
  const value = async (figure: string): Promise<number> => {
    const line = (await register.metrics()).split("\n").find((each) => each.startsWith(`${figure} `));
    return Number(line?.slice(figure.length + 1));
  };
  assert.equal(await value("nodejs_eventloop_lag_mean_seconds"), 0, "nothing was sampled yet");
  // 10 ms and more where the time between two samples counted.
  await until("a loop at rest is seen", async () => {
    const seconds = await value("nodejs_eventloop_lag_min_seconds");
    return seconds > 0 && seconds < 0.005;
  });
  await until("a loop that is held up is seen", async () => {
    const end = performance.now() + 400;
    while (performance.now() < end);
    await new Promise((resolve) => setTimeout(resolve, 1));
    return (await value("nodejs_eventloop_lag_max_seconds")) > 0.15;
  });
});
