import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { after, before, it } from "node:test";
import { openApiClient } from "../../src/kubernetes/client.ts";
import { readKubeconfig } from "../../src/kubernetes/kubeconfig.ts";
import { ListWatch } from "../../src/kubernetes/list-watch.ts";
import { chat } from "../paths/fixture.ts";
import { startBerth } from "../support/berth.ts";
import { startControlPlane, type ControlPlane } from "../support/kube/control-plane.ts";
import { installKinds } from "../support/kube/crds.ts";
import { engineCommand, openSlotSite } from "../support/kube/site.ts";
import { until } from "../support/until.ts";

/** Its own: the API server is ended. */
let plane: ControlPlane;
before(async () => {
  plane = await startControlPlane({ controllers: true });
  await installKinds(plane);
});
after(() => plane[Symbol.asyncDispose]());

const spec = { engine: "custom", command: engineCommand() };

it("a list-watch keeps its objects while the API server is dead, and is current once the server is back", async () => {
  const namespace = await plane.namespace();
  const errors: unknown[] = [];
  using client = openApiClient(await readKubeconfig({ KUBECONFIG: plane.kubeconfig }));
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const onError = (error: unknown): void => void errors.push(error);
  await using watch = ListWatch.start({ client, path, onError, onChange: () => undefined });
  await watch.synced();
  const kept = "kube-root-ca.crt";
  await until("its object is there", () => watch.isConnected && watch.get(kept));
  await plane.killApiServer();
  await until("it has lost its watch", () => !watch.isConnected && errors.length > 2);
  assert.equal(watch.get(kept)?.meta.name, kept);
  await plane.startApiServer();
  // The API server may refuse requests at first, also where its /readyz says ok.
  const later = JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "later" } });
  await until("it answers", () => plane.kubectl(["apply", "-n", namespace, "-f", "-"], later));
  await until("the new object is there", () => watch.get("later"));
});

it("an API server that is dead for longer than a Lease stops no engine and no gateway", async () => {
  await using at = await openSlotSite(plane);
  await at.apply("coder", spec);
  await using berth = await startBerth({ env: at.env });
  const pid = await at.pid("coder");
  await until("the gateway answers", async () => (await chat(berth, "coder"))[0] === 200);
  await plane.killApiServer();
  // Longer than the Lease.
  const began = performance.now();
  let asked = 0;
  while (performance.now() - began < 20_000) {
    assert.equal((await chat(berth, "coder"))[0], 200, `after ${performance.now() - began} ms`);
    asked += 1;
    await delay(500);
  }
  assert.ok(asked > 5);
  await plane.startApiServer();
  await until("it takes the edit", async () => {
    await at.apply("coder", { ...spec, idleSeconds: 78 });
    return true;
  });
  await until("it follows", async () => (await at.status("coder"))["observedGeneration"] === 2);
  assert.equal(await at.pid("coder"), pid);
  assert.equal((await chat(berth, "coder"))[0], 200);
  await plane.kubectl(["delete", "-n", at.namespace, "slots.berth.dev/coder", "--timeout=180s"]);
});
