import assert from "node:assert/strict";
import { createServer } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { after, before, it, type TestContext } from "node:test";
import { ListWatch } from "../../src/kubernetes/list-watch.ts";
import { isRecord } from "../../src/lib/record.ts";
import { quantile } from "../bench/bar.ts";
import { residentBytes } from "../bench/machine/cpu.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { startControlPlane, type ControlPlane } from "../support/kube/control-plane.ts";
import { installKinds } from "../support/kube/crds.ts";
import { openSlotSite, type SlotSite } from "../support/kube/site.ts";
import { until } from "../support/until.ts";

/** By hand, as docs/performance.md says; 1000 measures its bars. */
const slots = Number(process.env["BERTH_SCALE"] ?? 100);
/** MiB: the bars of 1000 Slots, in docs/performance.md. */
const limits = { operator: 330, gateway: 220, gatewayOfOne: 160 };
const mebibyte = 1024 ** 2;
const samples = 50;
/** Longer than the operator's look at everything, and than a watch lasts. */
const steadySeconds = 75;

let plane: ControlPlane;
before(async () => {
  plane = await startControlPlane();
  await installKinds(plane);
});
after(() => plane[Symbol.asyncDispose]());

const spec = { engine: "custom", runtime: "kubernetes", image: "registry.example/engine:1", model: { default: "m" } };

/** DOUBLES a kubelet: each Pod runs at once, at an address where an engine's health is asked. */
function startKubelet(at: SlotSite, onPod: (name: string) => void): ListWatch {
  const path = `/api/v1/namespaces/${at.namespace}/pods`;
  const started = new Set<string>();
  const watch: ListWatch = ListWatch.start({
    client: at.client,
    path,
    onChange(names) {
      for (const name of names) {
        const pod = watch.get(name);
        if (pod === undefined || started.has(pod.meta.uid)) continue;
        started.add(pod.meta.uid);
        onPod(name);
        void run(name).catch(() => started.delete(pod.meta.uid));
      }
    },
  });
  const run = async (name: string): Promise<void> => {
    const startedAt = new Date().toISOString();
    const container = { name: "engine", ready: true, started: true, restartCount: 0, image: "x", imageID: "x" };
    const status = {
      phase: "Running",
      podIP: "127.0.0.1",
      podIPs: [{ ip: "127.0.0.1" }],
      conditions: ["PodScheduled", "Initialized", "Ready"].map((type) => ({ type, status: "True" })),
      containerStatuses: [{ ...container, state: { running: { startedAt } } }],
    };
    const contentType = "application/merge-patch+json";
    await at.client.request("PATCH", `${path}/${name}/status`, { body: { status }, contentType });
  };
  return watch;
}

/** Answers every probe. In the network namespace of these tests nothing else is at this port. */
async function startEngine(): Promise<AsyncDisposable> {
  const server = createServer((asked, answer) => {
    asked.resume();
    answer.setHeader("content-type", "application/json");
    answer.end(JSON.stringify({ status: "ok", object: "list", data: [{ id: "m" }] }));
  });
  await new Promise<void>((resolve) => server.listen(8080, "127.0.0.1", resolve));
  return {
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** What the API server counts of the requests for the kinds that Berth uses, by verb and resource. */
async function requestCounts(): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (const line of (await plane.kubectl(["get", "--raw", "/metrics"])).split("\n")) {
    if (!line.startsWith("apiserver_request_total{")) continue;
    const label = (name: string): string => new RegExp(`[{,]${name}="([^"]*)"`).exec(line)?.[1] ?? "";
    if (!/^(slots|models|upstreams|slotgroups|pods|configmaps|secrets|events)$|^leases$/.test(label("resource")))
      continue;
    // The API server's own Leases are in another namespace, which the metric does not tell.
    const key = `${label("verb")} ${label("resource")}`;
    counts.set(key, (counts.get(key) ?? 0) + Number(line.slice(line.lastIndexOf(" ") + 1)));
  }
  return counts;
}

async function requestsIn(seconds: number): Promise<ReadonlyMap<string, number>> {
  const began = await requestCounts();
  await delay(seconds * 1000);
  const ended = await requestCounts();
  const grown = [...ended].map(([key, count]) => [key, count - (began.get(key) ?? 0)] as const);
  return new Map(grown.filter(([, count]) => count > 0));
}

async function allReady(at: SlotSite, count: number): Promise<void> {
  await until(
    `${count} slots are ready`,
    async () => {
      const page = await at.client.request("GET", `/apis/berth.dev/v1alpha1/namespaces/${at.namespace}/slots`);
      const items: readonly unknown[] = isRecord(page) && Array.isArray(page["items"]) ? page["items"] : [];
      const ready = items.filter(
        (item) => isRecord(item) && isRecord(item["status"]) && item["status"]["state"] === "ready",
      );
      return ready.length === count;
    },
    900_000,
  );
}

function middleAndEnd(values: readonly number[]): string {
  return `p50 ${Math.round(quantile(values, 0.5))} ms, p99 ${Math.round(quantile(values, 0.99))} ms`;
}

async function startGateway(at: SlotSite): Promise<RunningBerth> {
  const gateway = await startBerth({ args: ["serve"], env: at.env });
  await until("the gateway is ready", async () => (await fetch(`${gateway.url}/readyz`)).ok, 120_000);
  return gateway;
}

function tell(context: TestContext, name: string, value: string): void {
  context.diagnostic(`${name}: ${value}`);
}

it(
  `${slots} slots: Pods soon, memory and requests bounded, no list call at rest`,
  { timeout: 1_500_000 },
  async (context) => {
    await using at = await openSlotSite(plane);
    await using _engine = await startEngine();
    const made = new Map<string, () => void>();
    await using _kubelet = startKubelet(at, (name) => made.get(name)?.());
    await using operator = await startBerth({
      args: ["operator"],
      env: { ...at.env, SVC_RUNTIME: "kubernetes" },
    });
    await at.apply("slot-0", spec);
    await allReady(at, 1);
    {
      await using small = await startGateway(at);
      const bytes = residentBytes(small.child.pid ?? 0) / mebibyte;
      tell(context, "gateway with 1 slot", `${Math.round(bytes)} MiB`);
      assert.ok(bytes <= limits.gatewayOfOne, `${bytes} MiB`);
    }
    const began = performance.now();
    for (let index = 1; index < slots; index += 1) await at.apply(`slot-${index}`, spec);
    await allReady(at, slots);
    tell(context, `all of ${slots} slots ready after`, `${Math.round((performance.now() - began) / 1000)} s`);

    const took: number[] = [];
    for (let index = 0; index < samples; index += 1) {
      const there = Promise.withResolvers<void>();
      made.set(`berth-late-${index}-main-0`, there.resolve);
      await at.apply(`late-${index}`, spec);
      const applied = performance.now();
      await there.promise;
      took.push(performance.now() - applied);
    }
    await allReady(at, slots + samples);
    tell(context, `applied to Pod made beside ${slots} slots`, middleAndEnd(took));

    await using gateway = await startGateway(at);
    const found = await requestsIn(steadySeconds);
    const lines = [...found].toSorted(([, a], [, b]) => b - a).map(([key, count]) => `${key} ${count}`);
    const sum = [...found.values()].reduce((all, count) => all + count, 0);
    tell(context, `requests at rest in ${steadySeconds} s`, `${sum} (${(sum / steadySeconds).toFixed(1)} a second)`);
    tell(context, "of these", lines.join(", "));
    const lists = [...found.keys()].filter((key) => key.startsWith("LIST "));
    for (const [name, running, limit] of [
      ["operator", operator, limits.operator],
      ["gateway", gateway, limits.gateway],
    ] as const) {
      const bytes = residentBytes(running.child.pid ?? 0) / mebibyte;
      tell(context, `${name} with ${slots + samples} slots`, `${Math.round(bytes)} MiB`);
      assert.ok(bytes <= limit, `${name}: ${bytes} MiB`);
    }
    assert.deepEqual(lists, [], "no list call in a steady state");
  },
);
