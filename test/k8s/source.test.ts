import { after, before } from "node:test";
import { crd } from "../../hack/generate/crd.ts";
import { resources } from "../../hack/generate/resources.ts";
import { apiVersion, kinds, type Kind } from "../../src/api/names.ts";
import { isRecord } from "../../src/lib/record.ts";
import { ObjectSource } from "../../src/store/kubernetes/source.ts";
import { describeSource } from "../store/source-conformance.ts";
import { startControlPlane, type ControlPlane } from "../support/kube/control-plane.ts";
import { storesOf } from "../support/kube/cluster-store.ts";
import { waitForKinds } from "../support/kube/crds.ts";

let plane: ControlPlane;
before(async () => {
  plane = await startControlPlane();
  // CRDs of another version may let pass what this version's refuse: the operator judges for itself.
  for (const kind of kinds)
    await plane.kubectl(["apply", "--server-side", "-f", "-"], JSON.stringify(permissive(kind)));
  await waitForKinds(plane);
});
after(() => plane[Symbol.asyncDispose]());

function permissive(kind: Kind): object {
  const preserves = { "x-kubernetes-preserve-unknown-fields": true };
  const schema = { openAPIV3Schema: { type: "object", properties: { spec: { type: "object", ...preserves } } } };
  const { spec, ...rest } = crd(kind);
  if (!isRecord(spec) || !Array.isArray(spec["versions"])) throw new Error("no CRD");
  const versions: readonly object[] = spec["versions"];
  return { ...rest, spec: { ...spec, versions: versions.map((version) => ({ ...version, schema })) } };
}

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
