import assert from "node:assert/strict";
import { it } from "node:test";
import { loopDelays } from "../../src/lib/loop-delays.ts";
import { until } from "../support/until.ts";

it("loopDelays tells by how much the event loop is late, not the time between two samples", async () => {
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
    return (read()["max_seconds"] ?? 0) > 0.1;
  });
});
