import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { embeddedArchive } from "../../hack/images/embedded.ts";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { chat } from "../paths/fixture.ts";
import { childOf } from "../support/child-of.ts";
import { startBerth } from "../support/berth.ts";
import { sharedCluster } from "../support/kube/shared.ts";
import { readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";

const limitMs = 90_000;

test("slots that are files run as Pods of a cluster, from start to end", { timeout: 400_000 }, async () => {
  await using cluster = await sharedCluster();
  const file = join(cluster.directory, "embedded.tar");
  const image = await embeddedArchive(file);
  await cluster.importImage(file);
  await using running = await startBerth({
    env: { SVC_RUNTIME: "kubernetes", SVC_LLAMA_IMAGE: image, KUBECONFIG: cluster.kubeconfig },
    prepare: async ({ configDir, modelsDir }) => {
      await writeTinyModel(join(modelsDir, "tiny.gguf"), { embedding: false });
      await writeFile(join(configDir, "slots/primary.toml"), 'replicas = 2\n[model]\ndefault = "tiny"\n');
    },
  });
  const published = async () => (await readPublished(running.stateDir, "primary"))?.status;
  const inState = async (state: string) =>
    await until(
      `it is ${state}`,
      async () => {
        const status = await published();
        return status?.state === state && status;
      },
      limitMs,
    );
  const pods = async (): Promise<readonly string[]> => {
    const path = "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{'\\n'}{end}";
    const said = await cluster.kubectl(["get", "pods", "-l", "berth.dev/slot=primary", "-o", path]);
    return said.split("\n").filter((line) => line !== "");
  };
  const bothReady = async () =>
    await until(
      "both are ready",
      async () => (await published())?.processes.filter(({ isReady }) => isReady).length === 2,
      limitMs,
    );
  const ready = await inState("ready");
  await bothReady();
  const first = await pods();
  assert.equal(first.length, 2);
  assert.deepEqual(
    (await published())?.processes.map(({ podName, host, port }) => [podName, host.startsWith("10.244.0."), port]),
    [
      ["berth-primary-main-0", true, 8080],
      ["berth-primary-main-1", true, 8080],
    ],
  );
  assert.equal(ready.runtime, "kubernetes");
  assert.equal((await chat(running, "primary"))[0], 200);

  const log = await fetch(`${running.url}/api/slots/primary/logs?tail=5&timestamps=1`);
  assert.match(await log.text(), /^\d{4}-\d\d-\d\dT\S+Z \S/);

  await cluster.kubectl(["delete", "pod", "berth-primary-main-1", "--wait=false"]);
  await until(
    "the other is another Pod",
    async () => {
      const now = await pods();
      return now.length === 2 && now[0] === first[0] && now[1] !== first[1];
    },
    limitMs,
  );
  await bothReady();
  assert.equal((await chat(running, "primary"))[0], 200);

  const second = await pods();
  process.kill(childOf(running.child, "operator"), "SIGKILL");
  await until("it acts again", async () => (await published())?.state === "ready", limitMs);
  assert.equal((await chat(running, "primary"))[0], 200);
  assert.deepEqual(await pods(), second, "the next operator adopts the Pods");

  await writeFile(join(running.configDir, "slots/primary.toml"), 'enabled = false\n[model]\ndefault = "tiny"\n');
  await inState("offline");
  assert.deepEqual(await pods(), []);
});
