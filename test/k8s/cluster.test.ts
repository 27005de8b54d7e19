import assert from "node:assert/strict";
import { it } from "node:test";
import { startControlPlane } from "../support/kube/control-plane.ts";

it("a control plane serves, keeps stored objects when its API server is killed, and ends", async () => {
  await using plane = await startControlPlane();
  const namespace = await plane.namespace();
  assert.match(await plane.kubectl(["version"]), /Server Version: v1\.34\./);
  await plane.killApiServer();
  await assert.rejects(plane.kubectl(["get", "namespace", namespace]), /refused/);
  await plane.startApiServer();
  assert.match(await plane.kubectl(["get", "namespace", namespace]), /Active/);
});
