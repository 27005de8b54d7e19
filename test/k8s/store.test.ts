import { randomUUID } from "node:crypto";
import { after, before } from "node:test";
import { apiVersion } from "../../src/api/names.ts";
import { isRecord } from "../../src/lib/record.ts";
import { describeStore, type StoreUnderTest } from "../store/store-conformance.ts";
import { storesOf } from "../support/kube/cluster-store.ts";
import { sharedPlane, type SharedPlane } from "../support/kube/shared.ts";

let plane: SharedPlane;
before(async () => {
  plane = await sharedPlane();
});
after(() => plane[Symbol.asyncDispose]());

async function open(slots: readonly string[]): Promise<StoreUnderTest> {
  const stores = await storesOf(plane.kubeconfig, await plane.namespace());
  using client = await stores.client();
  for (const name of slots) {
    const body = { apiVersion, kind: "Slot", metadata: { name }, spec: { model: { default: "m" } } };
    await client.request("POST", `/apis/${apiVersion}/namespaces/${stores.namespace}/slots`, { body });
  }
  return {
    open: () => stores.open(),
    async seize() {
      using seizing = await stores.client();
      const path = `/apis/coordination.k8s.io/v1/namespaces/${stores.namespace}/leases/berth-operator`;
      const lease = await seizing.request("GET", path);
      if (!isRecord(lease) || !isRecord(lease["spec"])) throw new Error("nobody leads");
      const metadata = { annotations: { "berth.dev/record": null } };
      const spec = { holderIdentity: `another_${randomUUID()}` };
      await seizing.request("PATCH", path, { body: { metadata, spec }, contentType: "application/merge-patch+json" });
    },
    [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
  };
}

describeStore("a store in a cluster", () => open([]));
describeStore("a store in a cluster whose slots are objects", () => open(["a", "b"]));
