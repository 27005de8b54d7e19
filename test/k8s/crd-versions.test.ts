import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { parse } from "yaml";
import { crd } from "../../hack/generate/crd.ts";
import { resources } from "../../hack/generate/resources.ts";
import { apiVersion, type Kind } from "../../src/api/names.ts";
import type { ApiClient } from "../../src/lib/kubernetes/client.ts";
import { isRecord } from "../../src/lib/record.ts";
import { ObjectSource } from "../../src/store/kubernetes/source.ts";
import { storesOf } from "../support/kube/cluster-store.ts";
import { startControlPlane, type ControlPlane } from "../support/kube/control-plane.ts";
import { installKinds, waitForKinds } from "../support/kube/crds.ts";
import { until } from "../support/until.ts";

let plane: ControlPlane;
before(async () => {
  plane = await startControlPlane();
  await installKinds(plane);
});
after(() => plane[Symbol.asyncDispose]());

const person = { fieldManager: "person", force: true };
const contentType = "application/apply-patch+yaml";

async function apply(client: ApiClient, kind: Kind, name: string, spec: unknown, version = apiVersion): Promise<void> {
  const path = `/apis/${version}/namespaces/${client.namespace}/${resources[kind].plural}/${name}`;
  const body = { apiVersion: version, kind, metadata: { name }, spec };
  await until("the kind is served", () => client.request("PATCH", path, { query: person, body, contentType }), 30_000);
}

async function sourceOf(client: ApiClient): Promise<ObjectSource> {
  return await ObjectSource.open(
    { client, before: () => undefined, onError: (error) => console.error(error) },
    () => undefined,
  );
}

describe("CRDs of a later version", () => {
  it("have fields that this version says that it does not know, with their path; the former spec stays", async () => {
    await plane.kubectl(["apply", "--server-side", "--force-conflicts", "-f", "-"], later({ isServed: false }));
    await waitForKinds(plane);
    await using stores = await storesOf(plane.kubeconfig, await plane.namespace());
    using client = await stores.client();
    await apply(client, "Slot", "coder", { model: { default: "m" } });
    await using source = await sourceOf(client);
    const before = source.get("Slot", "coder");
    assert.deepEqual(before?.diagnostics, []);
    await until("the later field is kept by the API server", async () => {
      await apply(client, "Slot", "coder", { model: { default: "m" }, laterField: 1 });
      return (source.get("Slot", "coder")?.diagnostics.length ?? 0) > 0;
    });
    const seen = source.get("Slot", "coder");
    assert.deepEqual(
      seen?.diagnostics.map(({ path }) => path),
      [["spec", "laterField"]],
    );
    assert.match(seen.diagnostics[0]?.message ?? "", /unknown/);
    assert.deepEqual(seen.spec, before.spec);
  });

  it("serve objects that were written in a later version in this version's form", async () => {
    await plane.kubectl(["apply", "--server-side", "--force-conflicts", "-f", "-"], later({ isServed: true }));
    await waitForKinds(plane);
    await using stores = await storesOf(plane.kubeconfig, await plane.namespace());
    using client = await stores.client();
    await apply(client, "Slot", "coder", { model: { default: "m" }, laterField: 1 }, "berth.dev/v1beta1");
    await using source = await sourceOf(client);
    const seen = source.get("Slot", "coder");
    assert.deepEqual([seen?.diagnostics, seen?.spec?.model.default], [[], "m"]);
  });
});

/** The CRD of Slots with a field more: in this version, or in a later one that is served and stored beside it. */
function later({ isServed }: { readonly isServed: boolean }): string {
  const value: unknown = parse(JSON.stringify(crd("Slot")));
  assert.ok(isRecord(value) && isRecord(value["spec"]) && Array.isArray(value["spec"]["versions"]));
  const [version]: readonly unknown[] = value["spec"]["versions"];
  assert.ok(isRecord(version));
  const next: unknown = structuredClone(version);
  assert.ok(isRecord(next) && isRecord(next["schema"]) && isRecord(next["schema"]["openAPIV3Schema"]));
  const { properties } = next["schema"]["openAPIV3Schema"];
  assert.ok(isRecord(properties) && isRecord(properties["spec"]) && isRecord(properties["spec"]["properties"]));
  Object.assign(properties["spec"]["properties"], { laterField: { type: "integer" } });
  const versions = isServed
    ? [
        { ...version, storage: false },
        { ...next, name: "v1beta1" },
      ]
    : [next];
  return JSON.stringify({ ...value, spec: { ...value["spec"], versions } });
}
