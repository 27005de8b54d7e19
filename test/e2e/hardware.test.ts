import assert from "node:assert/strict";
import { test } from "node:test";
import { hardwareViewSchema, type HardwareView } from "../../src/api/management/views.ts";
import { startBerth } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { until } from "../support/until.ts";

test("the operator probes the hardware at its start and on request, and the gateway publishes it", async () => {
  await using berth = await startBerth({});
  const read = async (): Promise<HardwareView> =>
    hardwareViewSchema.parse(await (await fetch(`${berth.url}/api/hardware`)).json());
  const first = await until("the operator has looked", read);
  assert.equal(first.pending, false);
  const { code, stdout, stderr } = await runBerth(["probe", "-o", "json"], { SVC_URL: berth.url });
  assert.deepEqual([code, stderr], [0, ""]);
  const second = hardwareViewSchema.parse(JSON.parse(stdout));
  assert.equal(second.pending, false);
  assert.ok(Date.parse(second.probed_at) > Date.parse(first.probed_at));
  // The gateway reads how busy the machine is.
  assert.ok((second.now?.memory.used_bytes ?? 0) > 0);
  assert.deepEqual({ ...(await read()), now: second.now }, second);
});
