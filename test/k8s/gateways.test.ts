import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { isRecord } from "../../src/lib/record.ts";
import { parseJson } from "../../src/lib/json.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { sharedPlane, type SharedPlane } from "../support/kube/shared.ts";
import { engineCommand, openSlotSite, type SlotSite } from "../support/kube/site.ts";
import { until } from "../support/until.ts";

let plane: SharedPlane;
before(async () => {
  plane = await sharedPlane();
});
after(() => plane[Symbol.asyncDispose]());

async function startGateway({ env }: SlotSite): Promise<RunningBerth> {
  const gateway = await startBerth({ args: ["serve"], env });
  await until("the gateway is ready", async () => (await fetch(`${gateway.url}/readyz`)).ok);
  return gateway;
}

/** A chat that goes on until the signal aborts. Resolves with its status once the engine has answered with a first byte. */
async function openStream({ url }: RunningBerth, signal: AbortSignal): Promise<number> {
  const body = JSON.stringify({ model: "coder", stream: true, messages: [{ role: "user", content: "hello" }] });
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body, signal });
  await answer.body?.getReader().read();
  return answer.status;
}

/** What each gateway's Lease says of the slot, the most requests first. */
async function demandOf(at: SlotSite): Promise<readonly string[]> {
  const page = await at.client.request("GET", `/apis/coordination.k8s.io/v1/namespaces/${at.namespace}/leases`);
  assert.ok(isRecord(page) && Array.isArray(page["items"]));
  const items: readonly unknown[] = page["items"];
  const found = items.flatMap((item) => {
    if (!isRecord(item) || !isRecord(item["metadata"]) || !isRecord(item["metadata"]["annotations"])) return [];
    const text = item["metadata"]["annotations"]["berth.dev/demand"];
    const demand = typeof text === "string" ? parseJson(text) : undefined;
    if (!isRecord(demand) || !isRecord(demand["slots"])) return [];
    const { coder } = demand["slots"];
    return isRecord(coder) ? [`${String(coder["inFlight"])} in flight, ${String(coder["held"])} held`] : ["nothing"];
  });
  return found.toSorted().toReversed();
}

it("each gateway publishes its own demand and keeps its own places; the demand of a killed gateway holds no slot", async () => {
  await using at = await openSlotSite(plane);
  const command = engineCommand("--tokens", "100000", "--token-ms", "100");
  const limits = { concurrency: { max: 1 }, load: "onDemand", idleSeconds: 1 };
  await at.apply("coder", { engine: "custom", command, ...limits });
  await using _operator = await startBerth({ args: ["operator"], env: at.env });
  await using first = await startGateway(at);
  await using second = await startGateway(at);
  const ending = new AbortController();
  const staying = new AbortController();
  assert.equal(await openStream(first, ending.signal), 200, "a request at a gateway loads the slot");
  // concurrency.max counts at each gateway: the engine has two requests, although it is to have one.
  assert.equal(await openStream(second, staying.signal), 200);
  const third = openStream(first, ending.signal).catch(() => "ended");
  await until("each Lease tells its gateway's own", async () =>
    isSame(await demandOf(at), ["1 in flight, 1 held", "1 in flight, 0 held"]),
  );
  ending.abort();
  assert.equal(await third, "ended");
  await until("the first has none", async () =>
    isSame(await demandOf(at), ["1 in flight, 0 held", "0 in flight, 0 held"]),
  );
  const pid = await at.pid("coder");
  second.child.kill("SIGKILL");
  staying.abort();
  await until(
    "the slot is unloaded, although the Lease of the killed gateway is there",
    async () => {
      return (await at.status("coder"))["state"] === "offline";
    },
    60_000,
  );
  assert.equal((await demandOf(at)).length, 2);
  await until("its engine has ended", () => !isAlive(pid));
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const isSame = (found: readonly string[], wanted: readonly string[]): boolean => found.join() === wanted.join();
