import assert from "node:assert/strict";
import { after, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { RuntimeUnavailable } from "../../src/runtimes/runtime-unavailable.ts";
import { importEngineImage, importPauseImage } from "../support/kube/images.ts";
import { startCluster } from "../support/kube/node.ts";
import { until } from "../support/until.ts";
import { ClusterSite } from "./pod-site.ts";

/** Its own: the API server is ended. */
const cluster = await startCluster();
after(async () => await cluster[Symbol.asyncDispose]());

it("a node is ready", async () => {
  assert.match(await cluster.kubectl(["get", "nodes"]), /node1 +Ready/);
});

it("an API server that is gone makes the state unknown, and restarts no Pod", { timeout: 400_000 }, async () => {
  await importPauseImage(cluster);
  await importEngineImage(cluster);
  await using site = await ClusterSite.make(cluster);
  await using runtime = await site.open();
  await runtime.ensure(site.workload(0));
  const before = await until("it listens", async () =>
    (await runtime.observe("primary")).find(({ isListening }) => isListening),
  );
  await cluster.killApiServer();
  await until("it does not answer", () => runtime.isAnswering?.() === false);
  await assert.rejects(runtime.observe("primary"), RuntimeUnavailable);
  await assert.rejects(runtime.ensure(site.workload(0)), RuntimeUnavailable);
  assert.equal((await fetch(`http://${before.host}:${before.port}/health`)).status, 200);
  await cluster.startApiServer();
  await until("it answers again", () => runtime.isAnswering?.() === true);
  await until("it runs as before", async () => isDeepStrictEqual(await runtime.observe("primary"), [before]));
});
