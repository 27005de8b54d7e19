import assert from "node:assert/strict";
import { it } from "node:test";
import { ApiUnreachable } from "../../../src/kubernetes/api-error.ts";
import { openDemandLeases } from "../../../src/store/kubernetes/demand.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";

const lease = "/apis/coordination.k8s.io/v1/namespaces/berth/leases/berth-gateway-g";

/** The demand of a gateway on another machine, as it writes it. */
function beat(api: ApiDouble, { number, ageMs = 0 }: { readonly number: number; readonly ageMs?: number }): void {
  const heartbeat = new Date(Date.now() - ageMs).toISOString();
  const slots = { chat: { held: 0, inFlight: 1, seenRevision: 1, endpoints: [] } };
  const stamp = { gateway: "g", pid: 1, bootId: "of another machine", heartbeat, incarnation: "g", beat: number };
  const annotations = { "berth.dev/demand": JSON.stringify({ schema: 1, ...stamp, slots }) };
  api.put(lease, { metadata: { annotations } });
}

// A process of its own: its steady clock jumps.
it("the demand of a gateway stays in force while the operator cannot hear it, and ends where it is silent", async (context) => {
  const now = performance.now.bind(performance);
  let aheadMs = 0;
  let stoppedMs: number | undefined;
  context.mock.method(performance, "now", () => (stoppedMs ?? now()) + aheadMs);
  using api = new ApiDouble();
  beat(api, { number: 1 });
  const lines = api.lines.bind(api);
  let [isAway, opened, refused] = [false, 0, 0];
  let link = new AbortController();
  api.lines = async (path, call) => {
    if (isAway) {
      refused += 1;
      throw new ApiUnreachable(api.server, { cause: new Error("away") });
    }
    opened += 1;
    link = new AbortController();
    return await lines(path, {
      signal: AbortSignal.any([link.signal, ...(call?.signal === undefined ? [] : [call.signal])]),
    });
  };
  await using demand = await openDemandLeases(api, () => undefined);
  const isLive = (): boolean => demand.list().length === 1;
  assert.ok(isLive(), "an operator that has just taken over has not heard it twice");
  await until("the watch is open", () => opened === 1);
  isAway = true;
  link.abort();
  await until("the watch is away", () => refused > 0);
  aheadMs += 60_000;
  assert.ok(isLive(), "nobody can be heard");
  isAway = false;
  await until("the watch is open again", () => opened === 2);
  // No other time goes by from here on, however busy the machine is.
  stoppedMs = now();
  beat(api, { number: 2 });
  await until("it is heard again", () => demand.list()[0]?.beat === 2);
  aheadMs += 4000;
  assert.ok(isLive());
  aheadMs += 4000;
  assert.ok(!isLive(), "it is silent");
});

it("the Lease of a gateway that was killed long ago is no demand for the next operator", async () => {
  using api = new ApiDouble();
  beat(api, { number: 1, ageMs: 120_000 });
  await using demand = await openDemandLeases(api, () => undefined);
  assert.deepEqual(demand.list(), []);
});
