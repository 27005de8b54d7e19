import assert from "node:assert/strict";
import { createServer } from "node:http";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { after, before, it, type TestContext } from "node:test";
import { ListWatch } from "../../src/lib/kubernetes/list-watch.ts";
import { isRecord } from "../../src/lib/record.ts";
import { residentBytes } from "../bench/machine/cpu.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { startControlPlane, type ControlPlane } from "../support/kube/control-plane.ts";
import { installKinds } from "../support/kube/crds.ts";
import { partsOf, quantile, type Parts, type Sample } from "../support/kube/new-slots.ts";
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

const now = (): number => performance.timeOrigin + performance.now();

function middleAndEnd(values: readonly number[]): string {
  return `p50 ${Math.round(quantile(values, 0.5))} ms, p99 ${Math.round(quantile(values, 0.99))} ms`;
}

/** What the part of the time that a sample waits for was, and the slowest samples whole. */
function tellParts(context: TestContext, parts: readonly Parts[]): void {
  for (const name of ["watch", "decide", "ask", "make", "told", "stalled", "garbage", "calls", "opened"] as const)
    tell(context, `  ${name}`, middleAndEnd(parts.map((each) => each[name])));
  for (const { name, ...rest } of parts.toSorted((a, b) => b.whole - a.whole).slice(0, 5)) {
    const figures = Object.entries(rest).map(([key, value]) => `${key} ${Math.round(value)}`);
    tell(context, `  ${name}`, figures.join(", "));
  }
}

/** The same way by a program that decides nothing and does nothing else: a Slot, its watch, two reads, the Pod, its watch. */
async function openFloor(plane: ControlPlane): Promise<AsyncDisposable & { sample(name: string): Promise<number> }> {
  const at = await openSlotSite(plane);
  const { client, namespace } = at;
  const slotsPath = `/apis/berth.dev/v1alpha1/namespaces/${namespace}/slots`;
  const podsPath = `/api/v1/namespaces/${namespace}/pods`;
  const waiting = new Map<string, () => void>();
  const onChange = (names: readonly string[]): void => names.forEach((name) => waiting.get(name)?.());
  const watches = [slotsPath, podsPath].map((path) => ListWatch.start({ client, path, onChange }));
  for (const watch of watches) await watch.synced();
  const told = (name: string): Promise<void> => new Promise((resolve) => waiting.set(name, resolve));
  return {
    async sample(name) {
      const slot = told(name);
      await at.apply(name, spec);
      const applied = now();
      await slot;
      await Promise.all([
        client.request("GET", `${slotsPath}/${name}`),
        client.request("GET", `${podsPath}/pod-${name}`).catch(() => undefined),
      ]);
      const pod = told(`pod-${name}`);
      const body = {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: `pod-${name}` },
        spec: { containers: [{ name: "engine", image: "registry.example/engine:1" }] },
      };
      const query = { fieldManager: "floor", force: true };
      const contentType = "application/apply-patch+yaml";
      await client.request("PATCH", `${podsPath}/pod-${name}`, { query, body, contentType });
      await pod;
      return now() - applied;
    },
    async [Symbol.asyncDispose]() {
      for (const watch of watches) await watch[Symbol.asyncDispose]();
      await at[Symbol.asyncDispose]();
    },
  };
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
    const calls = join(plane.directory, "calls.jsonl");
    await using operator = await startBerth({
      args: ["operator"],
      env: {
        ...at.env,
        SVC_RUNTIME: "kubernetes",
        NODE_OPTIONS: `--import=${new URL("../support/kube/call-trace.ts", import.meta.url).href}`,
        BERTH_TEST_CALLS: calls,
      },
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

    await using floor = await openFloor(plane);
    const took: Sample[] = [];
    const least: number[] = [];
    for (let index = 0; index < samples; index += 1) {
      const name = `late-${index}`;
      const there = Promise.withResolvers<void>();
      made.set(`berth-${name}-main-0`, there.resolve);
      await at.apply(name, spec);
      const appliedAt = now();
      await there.promise;
      took.push({ name, appliedAt, podSeenAt: now() });
      if (index % 10 === 9) for (let each = 0; each < 10; each += 1) least.push(await floor.sample(`${name}-${each}`));
    }
    await allReady(at, slots + samples);
    const whole = took.map(({ appliedAt, podSeenAt }) => podSeenAt - appliedAt);
    tell(context, `applied to Pod made beside ${slots} slots`, middleAndEnd(whole));
    tell(context, "of which a program that decides nothing takes", middleAndEnd(least));
    tellParts(context, await partsOf(calls, took));

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
