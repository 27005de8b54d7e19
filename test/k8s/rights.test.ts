import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { z } from "zod";
import { openApiClient } from "../../src/lib/kubernetes/client.ts";
import { connect } from "../../src/lib/kubernetes/connection.ts";
import { openKubernetesRuntime } from "../../src/runtimes/kubernetes/kubernetes.ts";
import { startBerth } from "../support/berth.ts";
import { plainContainer } from "../support/container.ts";
import { accountWith, storeRights } from "../support/kube/account.ts";
import { storesOf } from "../support/kube/cluster-store.ts";
import { sharedPlane, type SharedPlane } from "../support/kube/shared.ts";
import { engineCommand, openSlotSite } from "../support/kube/site.ts";
import { until } from "../support/until.ts";
import { published } from "../store/published-slot.ts";
import { workload } from "../runtimes/kubernetes/manifests.ts";

let plane: SharedPlane;
before(async () => {
  plane = await sharedPlane();
});
after(() => plane[Symbol.asyncDispose]());

const quiet = { onWarning: () => undefined, onUnknown: () => undefined };
const gatewayOptions = { ...quiet, gateway: "g", onDiscoveredError: () => undefined };

it("the rights that the documents name are enough", async () => {
  const { kubeconfig, namespace } = await accountWith(plane, storeRights);
  const warnings: string[] = [];
  const onWarning = (line: string): void => void warnings.push(line);
  await using stores = await storesOf(kubeconfig, namespace);
  const body = { apiVersion: "berth.dev/v1alpha1", kind: "Slot", metadata: { name: "a" }, spec: { enabled: false } };
  await plane.kubectl(["apply", "-n", namespace, "-f", "-"], JSON.stringify(body));
  const store = stores.open();
  await using lease = await store.lead({ onWarning, onLost: () => undefined });
  const leader = await store.forLeader(lease, { ...quiet, onWarning });
  await using _inputs = await leader.inputs();
  await using gateway = await stores.open().forGateway({ ...gatewayOptions, onWarning });
  await leader.publisher.writeSlot(published("a"));
  await leader.publisher.writeSlot(published("b"));
  await until("both", () => gateway.published.slot("a") && gateway.published.slot("b"));
  await gateway.demand.write({ slots: {} });
  await gateway.demand[Symbol.asyncDispose]();
  const { id } = await gateway.tokens.create({ label: "l", scope: "read-only" });
  assert.equal(await gateway.tokens.revoke(id), true);
  await leader.publisher.deleteSlot("a");
  await leader.publisher.deleteSlot("b");
  assert.deepEqual(warnings, []);
});

it("a right that is missing is named with verb and resource", async () => {
  const { kubeconfig, namespace } = await accountWith(
    plane,
    storeRights.filter(({ resources }) => !resources.includes("slots")),
  );
  await using stores = await storesOf(kubeconfig, namespace);
  await assert.rejects(
    stores.open().forGateway(gatewayOptions),
    /slots\.berth\.dev is forbidden: .* cannot list resource "slots"/,
  );
  const none = await accountWith(plane, []);
  await using without = await storesOf(none.kubeconfig, none.namespace);
  await assert.rejects(
    without.open().lead({ ...quiet, onLost: () => undefined }),
    /leases\.coordination\.k8s\.io "berth-operator" is forbidden: .* cannot get resource "leases"/,
  );
});

it("a program without a right ends or continues, with the verb and the resource in its log", async () => {
  const blind = await accountWith(
    plane,
    storeRights.filter(({ resources }) => !resources.includes("slots")),
  );
  const env = (account: typeof blind): NodeJS.ProcessEnv => ({
    SVC_STORE: "kubernetes",
    SVC_ALLOW_PROCESSES: "1",
    KUBECONFIG: account.kubeconfig,
  });
  for (const command of ["operator", "serve"]) {
    await using refused = await startBerth({ args: [command], env: env(blind) });
    await until("it has ended", () => refused.child.exitCode !== null, 60_000);
    // What it said last may come after its exit.
    assert.equal(await refused.ended, 1);
    assert.match(refused.log(), /slots\.berth\.dev is forbidden: .* cannot list resource "slots"/);
  }
  const mute = await accountWith(
    plane,
    storeRights.filter(({ resources }) => !resources.includes("slots/status")),
  );
  const slot = { apiVersion: "berth.dev/v1alpha1", kind: "Slot", metadata: { name: "a" }, spec: { enabled: false } };
  await plane.kubectl(["apply", "-n", mute.namespace, "-f", "-"], JSON.stringify(slot));
  await using operator = await startBerth({ args: ["operator"], env: env(mute) });
  await until("it tells", () => /cannot patch resource "slots\/status"/.test(operator.log()), 60_000);
  assert.equal(operator.child.exitCode, null);
});

it("without rights to Pods the operator neither lists nor starts engines, and the message names the missing right", async () => {
  const open = async (verbs: readonly string[]) => {
    const pods = { apiGroups: [""], resources: ["pods"], verbs };
    const { kubeconfig } = await accountWith(plane, verbs.length === 0 ? [] : [pods]);
    const client = openApiClient(await connect({ KUBECONFIG: kubeconfig }));
    return await openKubernetesRuntime({ client, site: { instance: "test", user: 65_532 } });
  };
  const started = { ...workload, container: { ...plainContainer, pod: { backend: "cpu", extended: {}, claims: [] } } };
  await using blind = await open([]);
  await assert.rejects(blind.observe("primary"), {
    name: "RuntimeUnavailable",
    message: /pods is forbidden: .* cannot list resource "pods"/,
  });
  await using mute = await open(["get", "list", "watch"]);
  await assert.rejects(mute.ensure(started), /cannot create resource "pods"/);
  assert.deepEqual(await mute.observe("primary"), []);
});

it("rights that are taken away stop no engine and no gateway, and once they are back everything goes on", async () => {
  const { kubeconfig, namespace } = await accountWith(plane, storeRights);
  await using at = await openSlotSite(plane, { kubeconfig, namespace });
  const spec = { engine: "custom", command: engineCommand() };
  await at.apply("chat", spec);
  await using berth = await startBerth({ env: at.env });
  const pid = await at.pid("chat");
  const chat = async (): Promise<number> => {
    const body = JSON.stringify({ model: "chat", messages: [{ role: "user", content: "hello" }] });
    const headers = { "content-type": "application/json" };
    return (await fetch(`${berth.url}/v1/chat/completions`, { method: "POST", headers, body })).status;
  };
  await until("the gateway answers", async () => (await chat()) === 200);
  await plane.kubectl(["delete", "rolebinding", "-n", namespace, "berth"]);
  await until(
    "it says which right is missing",
    () => /leases\S* "\S+" is forbidden: .* cannot/.test(berth.log()),
    60_000,
  );
  // Longer than an operator may act without a renewal.
  const lease = z.object({ spec: z.object({ renewTime: z.string() }) });
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/berth-operator`;
  const ageMs = async (): Promise<number> => Date.now() - Date.parse(lease.parse(await plane.ask(path)).spec.renewTime);
  await until("the Lease is out of date", async () => (await ageMs()) > 12_000, 60_000);
  assert.equal(await chat(), 200);
  await plane.kubectl([
    "create",
    "rolebinding",
    "-n",
    namespace,
    "berth",
    "--role=berth",
    `--serviceaccount=${namespace}:berth`,
  ]);
  await at.apply("chat", { ...spec, idleSeconds: 77 });
  await until("it follows", async () => (await at.status("chat"))["observedGeneration"] === 2, 60_000);
  assert.equal(await at.pid("chat"), pid);
  assert.equal(await chat(), 200);
  await plane.kubectl(["delete", "-n", namespace, "slots.berth.dev/chat", "--timeout=180s"]);
});
