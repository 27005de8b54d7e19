import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { crd } from "../../hack/generate/crd.ts";
import { resources } from "../../hack/generate/resources.ts";
import { apiVersion, type Kind } from "../../src/api/names.ts";
import { completeSlot, slotSpecSchema } from "../../src/api/slot.ts";
import type { ApiClient } from "../../src/lib/kubernetes/client.ts";
import { isRecord } from "../../src/lib/record.ts";
import { ObjectSource } from "../../src/store/kubernetes/source.ts";
import { published } from "../store/published-slot.ts";
import { storesOf, type StoresOfNamespace } from "../support/kube/cluster-store.ts";
import { startControlPlane, type ControlPlane } from "../support/kube/control-plane.ts";
import { installKinds, waitForKinds } from "../support/kube/crds.ts";
import { until } from "../support/until.ts";

const fixtures = fileURLToPath(new URL("../fixtures", import.meta.url));
/** CRDs and published slots of the same earlier version. */
const earlier = { crds: join(fixtures, "crds-a80e358"), slots: join(fixtures, "published-a80e358", "slots") };

let plane: ControlPlane;
before(async () => {
  plane = await startControlPlane();
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

function namesIn(directory: string): readonly string[] {
  return readdirSync(directory).map((file) => file.replace(/\.json$/, ""));
}

function earlierSlot(name: string): Readonly<Record<string, unknown>> {
  const value: unknown = JSON.parse(readFileSync(join(earlier.slots, `${name}.json`), "utf8"));
  assert.ok(isRecord(value));
  return value;
}

describe("an upgrade of the CRDs", () => {
  let stores: StoresOfNamespace;
  let client: ApiClient;
  const names = namesIn(earlier.slots);
  before(async () => {
    await plane.kubectl(["apply", "--server-side", "-f", earlier.crds]);
    await plane.kubectl(["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
    stores = await storesOf(plane.kubeconfig, await plane.namespace());
    client = await stores.client();
    for (const name of names) {
      const { spec, status } = earlierSlot(name);
      await apply(client, "Slot", name, spec);
      const path = `/apis/${apiVersion}/namespaces/${stores.namespace}/slots/${name}/status`;
      const body = { apiVersion, kind: "Slot", metadata: { name }, status };
      // An empty map of a status was refused by these CRDs when it was applied.
      const query = { fieldManager: "berth" };
      await client.request("PATCH", path, { query, body, contentType: "application/merge-patch+json" });
    }
    await apply(client, "Model", "tiny", { source: "file:///models/tiny.gguf" });
    await apply(client, "Upstream", "cloud", { baseUrl: "https://api.example.com/v1", models: [{ ref: "m" }] });
    await installKinds(plane);
  });
  after(async () => {
    client[Symbol.dispose]();
    await stores[Symbol.asyncDispose]();
  });

  it("leaves what the earlier version's CRDs took readable, with the same meaning", async () => {
    await using source = await sourceOf(client);
    const found = source.list("Slot");
    assert.deepEqual(
      found.map(({ name }) => name),
      names.toSorted(),
    );
    for (const { name, spec, diagnostics } of found) {
      assert.deepEqual([name, diagnostics], [name, []]);
      assert.deepEqual(spec, completeSlot(name, slotSpecSchema.parse(earlierSlot(name)["spec"])));
    }
    for (const kind of ["Model", "Upstream"] as const)
      assert.deepEqual(
        source.list(kind).map(({ diagnostics }) => diagnostics),
        [[]],
      );
    const status = await plane.kubectl(["get", "-n", stores.namespace, "slots.berth.dev/primary", "-o", "json"]);
    const value: unknown = JSON.parse(status);
    assert.ok(isRecord(value) && isRecord(value["status"]));
    const { state, processes } = value["status"];
    assert.equal(state, "ready");
    assert.deepEqual(processes, [{ ordinal: 0, host: "127.0.0.1", ...processOf("primary") }]);
  });

  it("lets the operator publish over the earlier status, and a person apply the same manifest again", async () => {
    const store = stores.open();
    const quiet = {
      onWarning: (line: string) => assert.fail(line),
      onUnknown: () => undefined,
      onLost: () => undefined,
    };
    await using lease = await store.lead(quiet);
    const leader = await store.forLeader(lease, quiet);
    for (const name of names) {
      await leader.publisher.writeSlot(published(name));
      await apply(client, "Slot", name, earlierSlot(name)["spec"]);
    }
    const shown = await plane.kubectl(["get", "-n", stores.namespace, "slots.berth.dev", "-o", "json"]);
    const list: unknown = JSON.parse(shown);
    assert.ok(isRecord(list) && Array.isArray(list["items"]));
    for (const item of list["items"]) {
      assert.ok(isRecord(item) && isRecord(item["status"]));
      assert.deepEqual([item["status"]["state"], item["status"]["processes"]], ["offline", []]);
    }
  });
});

function processOf(name: string): object {
  const { status } = earlierSlot(name);
  assert.ok(isRecord(status) && Array.isArray(status["processes"]));
  const [first]: readonly unknown[] = status["processes"];
  assert.ok(isRecord(first));
  return first;
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
