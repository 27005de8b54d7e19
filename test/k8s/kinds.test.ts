import assert from "node:assert/strict";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { crd } from "../../hack/generate/crd.ts";
import { resources } from "../../hack/generate/resources.ts";
import { apiVersion, kinds, type Kind } from "../../src/api/names.ts";
import { openApiClient, type ApiClient } from "../../src/kubernetes/client.ts";
import { readKubeconfig } from "../../src/kubernetes/kubeconfig.ts";
import { acquireLease } from "../../src/kubernetes/lease-election.ts";
import { isRecord } from "../../src/lib/record.ts";
import { ObjectSource } from "../../src/store/kubernetes/source.ts";
import { applyKinds } from "../../src/tools/cluster/apply-kinds.ts";
import { releaseCluster as release } from "../../src/store/open-cluster.ts";
import { describeSource } from "../store/source-conformance.ts";
import { berthProcess } from "../support/command.ts";
import { storesOf } from "../support/kube/cluster-store.ts";
import { startControlPlane, type ControlPlane } from "../support/kube/control-plane.ts";
import { waitForKinds } from "../support/kube/crds.ts";

/** Its own: the kinds are changed. */
let plane: ControlPlane;
before(async () => {
  plane = await startControlPlane();
});
after(() => plane[Symbol.asyncDispose]());

async function clientIn(namespace: string): Promise<ApiClient> {
  return openApiClient(await readKubeconfig({ KUBECONFIG: plane.kubeconfig, POD_NAMESPACE: namespace }));
}

async function makeSlot(namespace: string, name: string, labels: object = {}): Promise<void> {
  const metadata = { name, labels, finalizers: ["berth.dev/engine", "example.org/own"] };
  const slot = { apiVersion: "berth.dev/v1alpha1", kind: "Slot", metadata, spec: { enabled: false } };
  await plane.kubectl(["apply", "-n", namespace, "-f", "-"], JSON.stringify(slot));
}

async function finalizersOf(namespace: string): Promise<string> {
  const path = "jsonpath={range .items[*]}{.metadata.name}{.metadata.finalizers}{end}";
  return await plane.kubectl(["get", "slots.berth.dev", "-n", namespace, "-o", path]);
}

it("apply-kinds writes the CRDs where there are none, and is idempotent", async () => {
  using client = await clientIn("default");
  const none: string[] = [];
  await release(client, { seconds: 1, selector: "a=b", write: (text) => none.push(text) });
  assert.deepEqual(none, [], "without the kind there is nothing to release");
  const env = { KUBECONFIG: plane.kubeconfig };
  const expected = ["models", "slotgroups", "slots", "upstreams"]
    .map((name) => `${name}.berth.dev: applied\n`)
    .join("");
  for (const _ of [1, 2]) {
    const { code, stdout } = await berthProcess(["cluster", "apply-kinds"], env);
    assert.deepEqual([code, stdout], [0, expected]);
  }
  assert.equal(await finalizersOf("default"), "");
});

it("apply-kinds names a kind that the API server does not establish", async () => {
  using client = await clientIn("default");
  const directory = join(plane.directory, "odd");
  await mkdir(directory);
  const file = "berth.dev_slots.yaml";
  await cp(join(import.meta.dirname, "../../crds", file), join(directory, file));
  const text = await readFile(join(directory, file), "utf8");
  // Its short name is another kind's already.
  await writeFile(
    join(directory, file),
    text.replaceAll("slots", "places").replace("singular: slot", "singular: place"),
  );
  await assert.rejects(
    applyKinds(client, () => undefined, { directory, waitMs: 500 }),
    { code: "cluster.not_established", message: "the API server does not serve places.berth.dev yet" },
  );
  await plane.kubectl(["delete", "crd", "places.berth.dev"]);
});

it("release frees every slot where no operator is left, and keeps finalizers of others", async () => {
  const namespace = await plane.namespace();
  await makeSlot(namespace, "a");
  await makeSlot(namespace, "b");
  const { code, stdout } = await berthProcess(["cluster", "release"], {
    KUBECONFIG: plane.kubeconfig,
    POD_NAMESPACE: namespace,
  });
  assert.deepEqual([code, stdout], [0, "slot a: released\nslot b: released\n"]);
  assert.equal(await finalizersOf(namespace), 'a["example.org/own"]b["example.org/own"]');
});

it("release deletes the slots of a selector, and does not wait for ever", async () => {
  const namespace = await plane.namespace();
  await makeSlot(namespace, "mine", { app: "x" });
  await makeSlot(namespace, "other");
  using client = await clientIn(namespace);
  const said: string[] = [];
  const write = (text: string): void => void said.push(text);
  await release(client, { selector: "app=x", seconds: 1, write });
  assert.deepEqual(said, [
    "slot mine: being deleted\n",
    "engines have not ended after 1 s: going on without\n",
    "slot mine: released\n",
    "slot other: released\n",
  ]);
});

it("release waits for the operator's Lease, and says when it continues without it", async () => {
  const namespace = await plane.namespace();
  using client = await clientIn(namespace);
  await makeSlot(namespace, "a");
  const said: string[] = [];
  const write = (text: string): void => void said.push(text);
  const identity = "berth-operator-79dc57bc7b-f465h_1";
  const candidate = { client, name: "berth-operator", identity, labels: {}, annotations: () => ({}) };
  {
    await using _held = await acquireLease(candidate, { onLost: () => undefined });
    await release(client, { deployment: "berth-operator", seconds: 1, write });
  }
  assert.deepEqual(said, ["the operator has not ended after 1 s: going on without\n", "slot a: released\n"]);
  said.length = 0;
  await release(client, { deployment: "berth-operator", seconds: 60, write });
  assert.deepEqual(said, [], "a Lease that was given back is nobody's");
});

it("a cluster that does not answer, or refuses, is named", async () => {
  const missing = await berthProcess(["cluster", "release"], { KUBECONFIG: join(plane.directory, "none") });
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /^cluster\.unknown: /);
  const user = "system:kube-proxy";
  const refused = await berthProcess(["cluster", "release"], { KUBECONFIG: plane.kubeconfigOf(user) });
  assert.match(refused.stderr, /^cluster\.refused: .*cannot list resource "slots"/);
});

function permissive(kind: Kind): object {
  const preserves = { "x-kubernetes-preserve-unknown-fields": true };
  const schema = { openAPIV3Schema: { type: "object", properties: { spec: { type: "object", ...preserves } } } };
  const { spec, ...rest } = crd(kind);
  if (!isRecord(spec) || !Array.isArray(spec["versions"])) throw new Error("no CRD");
  const versions: readonly object[] = spec["versions"];
  return { ...rest, spec: { ...spec, versions: versions.map((version) => ({ ...version, schema })) } };
}

describe("kinds of another version", () => {
  // They may let pass what this version's refuse: the operator judges for itself.
  before(async () => {
    const apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    for (const kind of kinds) await plane.kubectl(apply, JSON.stringify(permissive(kind)));
    await waitForKinds(plane);
  });

  describeSource("custom resources", async () => {
    await using stack = new AsyncDisposableStack();
    const stores = stack.use(await storesOf(plane.kubeconfig, await plane.namespace()));
    const { namespace } = stores;
    const client = stack.use(await stores.client());
    const onError = (error: unknown): void => console.error(error);
    const source = stack.use(await ObjectSource.open({ client, onError }, () => undefined));
    const owned = stack.move();
    const pathOf = (kind: Kind): string => `/apis/${apiVersion}/namespaces/${namespace}/${resources[kind].plural}`;
    return {
      source,
      async put(kind, name, spec, labels = {}) {
        const body = { apiVersion, kind, metadata: { name, labels }, spec };
        const query = { fieldManager: "person", force: true };
        const contentType = "application/apply-patch+yaml";
        await client.request("PATCH", `${pathOf(kind)}/${name}`, { query, body, contentType });
      },
      async remove(kind, name) {
        await client.request("DELETE", `${pathOf(kind)}/${name}`);
      },
      originOf: (kind, name) => ({ kind: "object", name: `${resources[kind].plural}.berth.dev/${name}`, namespace }),
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  });
});
