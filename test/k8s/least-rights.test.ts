import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { openApiClient } from "../../src/kubernetes/client.ts";
import { connect } from "../../src/kubernetes/connection.ts";
import { readLease } from "../../src/kubernetes/lease-election.ts";
import { openDemandLeases } from "../../src/store/kubernetes/demand.ts";
import { tailPodLogs } from "../../src/runtimes/kubernetes/pod-logs.ts";
import { openKubernetesRuntime } from "../../src/runtimes/kubernetes/kubernetes.ts";
import { kinds, type Kind } from "../../src/api/names.ts";
import type { PublishedSlot, SlotRequest } from "../../src/api/status.ts";
import { plainContainer } from "../support/container.ts";
import {
  accountWith,
  gatewayRights,
  logRights,
  operatorRights,
  podRights,
  rightsIn,
  rightsUsed,
} from "../support/kube/account.ts";
import { storesOf } from "../support/kube/cluster-store.ts";
import { startFaultProxy, type FaultProxy } from "../support/kube/fault-proxy.ts";
import { sharedPlane, type SharedPlane } from "../support/kube/shared.ts";
import { until } from "../support/until.ts";
import { published } from "../store/published-slot.ts";
import { workload } from "../runtimes/kubernetes/manifests.ts";

// With the rights that the documents name each program does what it does, and no right is left over.

let plane: SharedPlane;
before(async () => {
  plane = await sharedPlane();
});
after(() => plane[Symbol.asyncDispose]());

const specs: Readonly<Record<Kind, Readonly<Record<string, unknown>>>> = {
  Slot: { enabled: false },
  Model: { source: "hf://owner/repo/file.gguf" },
  Upstream: { baseUrl: "https://api.example.com/v1", models: [{ ref: "large" }] },
  SlotGroup: { budget: { slots: 1 } },
};

function unused({ seen }: FaultProxy, granted: readonly string[]): readonly string[] {
  const used = new Set(seen.flatMap((request) => rightsUsed(request, granted)));
  return granted.filter((right) => !used.has(right));
}

/** The next request of that kind meets a conflict, as where another writer was faster. */
function conflictOnce({ faults }: FaultProxy, method: string, path: RegExp): void {
  faults.refuse = (asked, at) => {
    if (asked !== method || !path.test(at)) return undefined;
    faults.refuse = undefined;
    return 409;
  };
}

function movedTo(name: string, revision: number, message: string): PublishedSlot {
  const slot = published(name, revision);
  const at = new Date(Date.now() + revision * 1000).toISOString();
  const transitions = [{ at, from: "offline", to: "error", reason: "Exited", message } as const];
  return { ...slot, status: { ...slot.status, transitions } };
}

const requestOf = (slot: string): SlotRequest => ({
  schema: 1,
  slot,
  kind: "restart",
  specHash: "h",
  token: "t",
  requestedAt: new Date().toISOString(),
});

it("the operator uses each of its rights, and needs no other", async () => {
  const rules = [...operatorRights, ...podRights];
  const { namespace, token } = await accountWith(plane, rules);
  await using proxy = await startFaultProxy(plane, namespace, token);
  for (const kind of kinds) {
    const body = { apiVersion: "berth.dev/v1alpha1", kind, metadata: { name: "a" }, spec: specs[kind] };
    await plane.kubectl(["apply", "-n", namespace, "-f", "-"], JSON.stringify(body));
  }
  const labels = { "app.kubernetes.io/part-of": "berth", "app.kubernetes.io/managed-by": "berth" };
  const gone = {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name: "berth-gateway-gone", labels: { ...labels, "berth.dev/part": "gateway" } },
    spec: { renewTime: "2026-01-01T00:00:00.000000Z" },
  };
  await plane.kubectl(["apply", "-n", namespace, "-f", "-"], JSON.stringify(gone));
  const warnings: string[] = [];
  const quiet = { onWarning: (line: string) => void warnings.push(line), onUnknown: () => undefined };
  await using stores = await storesOf(proxy.kubeconfig, namespace);
  const store = stores.open();
  {
    await using lease = await store.lead({ ...quiet, onLost: () => undefined });
    const leader = await store.forLeader(lease, quiet);
    await using inputs = await leader.inputs();
    const { publisher } = leader;
    const bearerList = [{ role: "main" as const, ordinal: 0, bearer: "b3arer" }];
    await publisher.writeSlot({ ...movedTo("a", 1, "it ended"), bearerList });
    await publisher.writeSlot({ ...movedTo("a", 2, "it ended"), bearerList });
    await publisher.writeSlot(published("b"));
    const condition = {
      observedGeneration: 1,
      lastTransitionTime: new Date().toISOString(),
      reason: "Valid",
      message: "",
    };
    const conditions = [{ type: "Ready", status: "True", ...condition } as const];
    const resources = (["Model", "Upstream", "SlotGroup"] as const).map((kind) => ({
      kind,
      name: "a",
      file: "",
      generation: 1,
      specHash: "h",
      conditions,
    }));
    await publisher.writeRegistry({ schema: 1, models: [], upstreams: [], resources });
    await inputs.requests.put(requestOf("c"));
    await until("the request is there", () => inputs.requests.list("c").length === 1);
    conflictOnce(proxy, "PATCH", /configmaps/);
    await inputs.requests.remove("c", "restart", "t");
    await inputs.requests.put(requestOf("a"));
    await until("the request is there", () => inputs.requests.list("a").length === 1);
    conflictOnce(proxy, "PATCH", /slots\/a/);
    await inputs.requests.remove("a", "restart", "t");
    await until("both Events are told, and the namespace was read", () =>
      ["PATCH .*/events/", `GET \\S*/namespaces/${namespace}$`].every((each) =>
        proxy.seen.some((line) => new RegExp(each).test(line)),
      ),
    );
    const client = openApiClient({ ...(await connect({ KUBECONFIG: proxy.kubeconfig })), namespace });
    await using _demand = await openDemandLeases(client, (error) => void warnings.push(String(error)), 400);
    await until("the Lease of the gateway that is gone is deleted", () =>
      proxy.seen.some((line) => /DELETE .*berth-gateway-gone/.test(line)),
    );
    await using runtime = await openKubernetesRuntime({ client, site: { instance: leader.instance, user: 65_532 } });
    const pod = { backend: "cpu", extended: {}, claims: [] } as const;
    const container = { ...plainContainer, image: "registry.example/engine:1", pod };
    await runtime.ensure({ ...workload, bearer: { env: "LLAMA_API_KEY" }, container });
    await runtime.ensure({ ...workload, bearer: { env: "LLAMA_API_KEY" }, container });
    const [made] = await runtime.observe(workload.slot);
    assert.ok(made !== undefined);
    await assert.rejects(runtime.ensure({ ...workload, hash: "other", container }), /another version/);
    // No node runs the Pod: there is no log to read, and the request for it is what counts.
    await runtime.firstOutput?.(made).catch(() => undefined);
    await runtime.remove(workload.slot, undefined, { stopSeconds: 0 });
  }
  assert.deepEqual(warnings, []);
  assert.deepEqual(unused(proxy, rightsIn(rules)), []);
});

it("a gateway uses each of its rights, and needs no other", async () => {
  const { namespace, token } = await accountWith(plane, gatewayRights);
  await using proxy = await startFaultProxy(plane, namespace, token);
  const warnings: string[] = [];
  const onWarning = (line: string): void => void warnings.push(line);
  await using stores = await storesOf(proxy.kubeconfig, namespace);
  const options = { onWarning, onUnknown: () => undefined, gateway: "g", onDiscoveredError: () => undefined };
  {
    await using gateway = await stores.open().forGateway(options);
    await gateway.demand.write({ slots: {} });
    for (const kind of kinds) {
      await gateway.writer.create(kind, "a", { spec: specs[kind] });
      await gateway.writer.replace(kind, "a", { spec: specs[kind], labels: { team: "x" } });
    }
    await gateway.writer.set("Slot", "a", ["idleSeconds"], 77);
    await gateway.requests.put(requestOf("c"));
    await until("the request is there", () => gateway.requests.list("c").length === 1);
    conflictOnce(proxy, "PATCH", /configmaps/);
    await gateway.requests.remove("c", "restart", "t");
    for (const kind of kinds) assert.equal(await gateway.writer.remove(kind, "a", { isKnown: true }), true);
    const { id } = await gateway.tokens.create({ label: "l", scope: "read-only" });
    assert.equal(await gateway.tokens.revoke(id), true);
    await gateway.demand[Symbol.asyncDispose]();
  }
  // As `berth doctor` in its Pod does.
  using client = await stores.client();
  assert.equal(await readLease(client, "berth-operator"), undefined);
  assert.deepEqual(warnings, []);
  assert.deepEqual(unused(proxy, rightsIn(gatewayRights)), []);
});

it("logs of engines take the rights to Pods that the gateway has for them", async () => {
  const { namespace, kubeconfig } = await accountWith(plane, logRights);
  const client = openApiClient({ ...(await connect({ KUBECONFIG: kubeconfig })), namespace });
  for await (const _line of tailPodLogs(client, "a", { tail: 10, follow: false })) assert.fail("there is no Pod");
  client[Symbol.dispose]();
});
