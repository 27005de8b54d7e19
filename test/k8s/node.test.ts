import assert from "node:assert/strict";
import { it } from "node:test";
import { startCluster } from "../support/kube/node.ts";

it("a node is ready, and leaves nothing behind", async () => {
  await using cluster = await startCluster();
  assert.match(await cluster.kubectl(["get", "nodes"]), /node1 +Ready/);
});
