import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import type { Workload } from "../../src/api/workload.ts";
import { openApiClient } from "../../src/kubernetes/client.ts";
import { connect } from "../../src/kubernetes/connection.ts";
import { openKubernetesRuntime } from "../../src/runtimes/kubernetes/kubernetes.ts";
import type { Runtime } from "../../src/runtimes/runtime.ts";
import { plainContainer } from "../support/container.ts";
import { defaultAccount } from "../support/kube/control-plane.ts";
import { startFaultProxy } from "../support/kube/fault-proxy.ts";
import { sharedPlane, type SharedPlane } from "../support/kube/shared.ts";
import { until } from "../support/until.ts";

/** Without a node: what the API server is asked, and what it then has. */
let plane: SharedPlane;
before(async () => (plane = await sharedPlane()));
after(() => plane[Symbol.asyncDispose]());

const pod = { backend: "cpu", extended: {}, claims: [] } as const;
const workload: Workload = {
  slot: "chat",
  role: "main",
  ordinal: 0,
  hash: "hash-1",
  runtime: "kubernetes",
  command: [],
  env: { PORT: "8080" },
  workingDir: undefined,
  port: 8080,
  stopSeconds: 1,
  container: { ...plainContainer, image: "registry.example/engine:1", pod },
};
const withBearer: Workload = { ...workload, bearer: { env: "LLAMA_API_KEY" } };
const name = "berth-chat-main-0";

interface Scene {
  readonly runtime: Runtime;
  /** The requests since the last call, without watches and lists. */
  readonly asked: () => readonly string[];
  /** Another runtime of the same installation, as the operator before or after this one has. */
  readonly another: () => Promise<Runtime>;
  /** From now on the runtime's watches say nothing. */
  readonly silence: () => void;
  readonly kubectl: (...args: readonly string[]) => Promise<string>;
  readonly make: (object: object) => Promise<void>;
}

async function scene(run: (scene: Scene) => Promise<void>): Promise<void> {
  const namespace = await plane.namespace();
  await until("its service account", () => plane.ask(defaultAccount(namespace)), 60_000);
  await using proxy = await startFaultProxy(plane, namespace);
  const open = async (KUBECONFIG: string): Promise<Runtime> => {
    const client = openApiClient({ ...(await connect({ KUBECONFIG })), namespace });
    return await openKubernetesRuntime({ client, site: { instance: "test", user: 65_532 } });
  };
  await using runtime = await open(proxy.kubeconfig);
  await until("its watch is open", () => runtime.isAnswering?.() === true);
  let told = 0;
  await run({
    runtime,
    another: () => open(plane.kubeconfig),
    silence: () => void (proxy.faults.lines = () => []),
    asked() {
      const all = proxy.seen.filter((line) => !/watch=true|limit=/.test(line));
      const fresh = all.slice(told).map((line) => line.replace(/\?.*/, "").replace(/ \S*\/namespaces\/[^/]+\//, " "));
      told = all.length;
      return fresh;
    },
    kubectl: (...args) => plane.kubectl(["-n", namespace, ...args]),
    make: async (object) => void (await plane.kubectl(["-n", namespace, "create", "-f", "-"], JSON.stringify(object))),
  });
}

it("a new Pod takes one request, and its Secret another one", async () => {
  await scene(async ({ runtime, asked, kubectl, make }) => {
    const kind = { apiVersion: "berth.dev/v1alpha1", kind: "Slot" };
    // A real one: the controllers of the cluster delete a Pod whose owner is not there.
    await make({ ...kind, metadata: { name: "chat" }, spec: { model: { default: "any" } } });
    const uid = await kubectl("get", "slot", "chat", "-o", "jsonpath={.metadata.uid}");
    await runtime.ensure(workload, { ownerUid: uid });
    assert.deepEqual(asked(), ["POST pods"]);
    const owner = await kubectl("get", "pod", name, "-o", "jsonpath={.metadata.ownerReferences[0]}");
    const slot = { ...kind, name: "chat", uid };
    assert.deepEqual(JSON.parse(owner), { ...slot, controller: true, blockOwnerDeletion: false });
    await runtime.ensure({ ...withBearer, slot: "other" });
    assert.deepEqual(asked(), ["POST secrets", "POST pods", "PATCH secrets/berth-other-main-0"]);
    const other = await kubectl("get", "pod", "berth-other-main-0", "-o", "jsonpath={.metadata.ownerReferences}");
    assert.equal(other, "", "the slot is a file");
  });
});

it("neither the Secret of somebody else nor his Pod of the same name is changed", async () => {
  await scene(async ({ runtime, kubectl, make }) => {
    const metadata = { name };
    await make({ apiVersion: "v1", kind: "Secret", metadata, stringData: { LLAMA_API_KEY: "theirs" } });
    await assert.rejects(runtime.ensure(withBearer), /the Secret berth-chat-main-0 belongs to another installation/);
    assert.equal(await kubectl("get", "pods", "-o", "name"), "");
    // A workload that is refused before any request must not take their Secret, either.
    const mounts = [{ source: "/etc", target: "/host", readOnly: true }];
    await runtime.ensure({ ...withBearer, container: { ...plainContainer, pod, mounts } });
    const containers = [{ name: "engine", image: "registry.example/engine:0" }];
    await make({ apiVersion: "v1", kind: "Pod", metadata, spec: { containers } });
    await assert.rejects(runtime.ensure(workload), /belongs to another installation of Berth, or to somebody else/);
    const [key, image, labels] = await Promise.all([
      kubectl("get", "secret", name, "-o", "jsonpath={.data.LLAMA_API_KEY}"),
      kubectl("get", "pod", name, "-o", "jsonpath={.spec.containers[0].image}"),
      kubectl("get", "pod", name, "-o", "jsonpath={.metadata.labels}"),
    ]);
    assert.equal(Buffer.from(key, "base64").toString(), "theirs");
    assert.deepEqual([image, labels], ["registry.example/engine:0", ""]);
    await kubectl("delete", "secret", name);
    await assert.rejects(runtime.ensure(withBearer), /belongs to another installation of Berth, or to somebody else/);
    assert.equal(await kubectl("get", "secrets", "-o", "name"), "", "nothing is left that no Pod reads");
  });
});

it("a Secret that an earlier Pod left behind takes the new bearer, which the next operator knows", async () => {
  await scene(async ({ runtime, another, kubectl, make }) => {
    const labels = { "berth.dev/instance": "test" };
    await make({ apiVersion: "v1", kind: "Secret", metadata: { name, labels }, stringData: { LLAMA_API_KEY: "old" } });
    const before = await kubectl("get", "secret", name, "-o", "jsonpath={.metadata.uid}");
    await runtime.ensure(withBearer);
    assert.notEqual(await kubectl("get", "secret", name, "-o", "jsonpath={.metadata.uid}"), before);
    const [seen] = await runtime.observe("chat");
    const key = await kubectl("get", "secret", name, "-o", "jsonpath={.data.LLAMA_API_KEY}");
    assert.match(seen?.bearer ?? "", /^[\w-]{43}$/);
    assert.equal(Buffer.from(key, "base64").toString(), seen?.bearer);
    await using next = await another();
    assert.equal((await next.observe("chat"))[0]?.bearer, seen?.bearer);
  });
});

it("the Secret of a slot in a file goes with its Pod, also where somebody else ends the Pod", async () => {
  await scene(async ({ runtime, kubectl }) => {
    await runtime.ensure(withBearer);
    assert.equal(await kubectl("get", "secrets", "-o", "name"), `secret/${name}\n`);
    await kubectl("delete", "pod", name, "--force", "--grace-period=0");
    await until("the Secret is gone", async () => (await kubectl("get", "secrets", "-o", "name")) === "", 60_000);
  });
});

it("a Pod that a late watch does not know yet is adopted, and one of another version is left to be stopped", async () => {
  await scene(async ({ runtime, another, silence, asked, kubectl }) => {
    silence();
    await using other = await another();
    await other.ensure(workload);
    const uid = await kubectl("get", "pod", name, "-o", "jsonpath={.metadata.uid}");
    await runtime.ensure(workload);
    assert.deepEqual(asked(), ["POST pods", `GET pods/${name}`]);
    assert.equal((await runtime.observe("chat")).length, 1);
    await assert.rejects(
      runtime.ensure({ ...workload, hash: "hash-2" }),
      /another version of chat \(main\) still runs/,
    );
    assert.equal(await kubectl("get", "pod", name, "-o", "jsonpath={.metadata.uid}"), uid);
  });
});

it("a field of a template that no Pod has is named, and the Pod is not made without it", async () => {
  await scene(async ({ runtime, kubectl }) => {
    const template = { spec: { nodeSelektor: { gpu: "true" } } };
    await runtime.ensure({ ...withBearer, container: { ...plainContainer, image: "x", pod: { ...pod, template } } });
    const [seen] = await runtime.observe("chat");
    assert.equal(seen?.exit?.reason, "StartFailed");
    assert.match(
      seen?.exit?.message ?? "",
      /podTemplate\.spec\.nodeSelektor is no field .*did you mean nodeSelector\?/,
    );
    assert.equal(await kubectl("get", "pods,secrets", "-o", "name"), "");
  });
});
