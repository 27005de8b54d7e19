import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { after, before, it } from "node:test";
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

it("a control plane keeps stored objects when its API server is killed", async () => {
  const namespace = await plane.namespace();
  assert.match(await plane.kubectl(["version"]), /Server Version: v1\.34\./);
  await plane.killApiServer();
  await assert.rejects(plane.kubectl(["get", "namespace", namespace]), /refused/);
  await plane.startApiServer();
  // The API server may refuse requests at first, also where its /readyz says ok.
  const found = await until("it answers", () => plane.kubectl(["get", "namespace", namespace]));
  assert.match(found, /Active/);
});

it("an API server that is dead for longer than a Lease stops no engine and no gateway", async () => {
  await using at = await openSlotSite(plane);
  await at.apply("coder", spec);
  await using berth = await startBerth({ env: at.env });
  const pid = await at.pid("coder");
  const chat = async (): Promise<number> => {
    const body = JSON.stringify({ model: "coder", messages: [{ role: "user", content: "hello" }] });
    const headers = { "content-type": "application/json" };
    return (await fetch(`${berth.url}/v1/chat/completions`, { method: "POST", headers, body })).status;
  };
  await until("the gateway answers", async () => (await chat()) === 200);
  await plane.killApiServer();
  // Longer than the Lease.
  const began = performance.now();
  let asked = 0;
  while (performance.now() - began < 20_000) {
    assert.equal(await chat(), 200, `after ${performance.now() - began} ms`);
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
  assert.equal(await chat(), 200);
  await plane.kubectl(["delete", "-n", at.namespace, "slots.berth.dev/coder", "--timeout=180s"]);
});
