import assert from "node:assert/strict";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { berthArchive } from "../../hack/images/berth.ts";
import { embeddedArchive } from "../../hack/images/embedded.ts";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { chat } from "../paths/fixture.ts";
import { startBerth } from "../support/berth.ts";
import { childOf } from "../support/child-of.ts";
import { chartDirectory, helm } from "../support/kube/helm.ts";
import { importPauseImage } from "../support/kube/images.ts";
import { startCluster, type Cluster } from "../support/kube/node.ts";
import { readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";

const namespace = "ai";
const limit = "--timeout=420s";
const limitMs = 90_000;

/** Its volumes are bound once a Pod wants them, as those of local-path. */
const storageClass = "first-consumer";

/** A directory of the node as a volume, as local-path makes one: root's, and open to all. */
async function makeVolume(cluster: Cluster, name: string, storage: string): Promise<string> {
  const path = join(cluster.directory, name);
  await mkdir(path);
  await chmod(path, 0o777);
  const node = { key: "kubernetes.io/hostname", operator: "In", values: ["node1"] };
  const nodeAffinity = { required: { nodeSelectorTerms: [{ matchExpressions: [node] }] } };
  const local = { storageClassName: storageClass, local: { path }, nodeAffinity };
  const spec = { capacity: { storage }, accessModes: ["ReadWriteOnce"], ...local };
  await cluster.kubectl(["apply", "-f", "-"], JSON.stringify({ ...volume, metadata: { name }, spec }));
  return path;
}

const volume = { apiVersion: "v1", kind: "PersistentVolume" };

async function makeVolumes(cluster: Cluster): Promise<void> {
  const mode = { provisioner: "kubernetes.io/no-provisioner", volumeBindingMode: "WaitForFirstConsumer" };
  const named = { apiVersion: "storage.k8s.io/v1", kind: "StorageClass", metadata: { name: storageClass } };
  await cluster.kubectl(["apply", "-f", "-"], JSON.stringify({ ...named, ...mode }));
  await writeTinyModel(join(await makeVolume(cluster, "models", "1Gi"), "tiny.gguf"), { embedding: false });
  await makeVolume(cluster, "state", "2Gi");
}

/** A claim for a gateway's state, which waits for the gateway. */
async function makeClaim(cluster: Cluster): Promise<void> {
  const spec = { storageClassName: storageClass, accessModes: ["ReadWriteOnce"] };
  const claim = { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name: "state" } };
  const resources = { requests: { storage: "2Gi" } };
  const text = JSON.stringify({ ...claim, spec: { ...spec, resources } });
  await cluster.kubectl(["-n", namespace, "apply", "-f", "-"], text);
  const events = ["-n", namespace, "get", "events", "-o", "jsonpath={.items[*].reason}"];
  await until("it waits", async () => (await cluster.kubectl(events)).includes("WaitForFirstConsumer"));
}

/** The whole output of the Job, from its Pod's start; empty where the Job had ended before its log could be read. */
async function watchLog(kubectl: (...args: readonly string[]) => Promise<string>, end: AbortSignal): Promise<string> {
  for (;;) {
    const isLast = end.aborted;
    const text = await kubectl("logs", "--follow", "job/berth-release").catch(() => "");
    if (text !== "" || isLast) return text;
  }
}

/** Its own: the chart brings the kinds. Engines of slots in files run here as well: both need the same image. */
let cluster: Cluster;
let llamaImage = "";
before(async () => {
  cluster = await startCluster();
  await importPauseImage(cluster);
  const file = join(cluster.directory, "embedded.tar");
  llamaImage = await embeddedArchive(file);
  await cluster.importImage(file);
});
after(() => cluster[Symbol.asyncDispose]());

test("slots that are files run as Pods of a cluster, from start to end", { timeout: 400_000 }, async () => {
  await using running = await startBerth({
    env: { SVC_RUNTIME: "kubernetes", SVC_LLAMA_IMAGE: llamaImage, KUBECONFIG: cluster.kubeconfig },
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

test("the chart, from its installation to its end", { timeout: 1_800_000 }, async (t) => {
  const kubectl = async (...args: readonly string[]): Promise<string> =>
    await cluster.kubectl(["-n", namespace, ...args]);
  const file = join(cluster.directory, "berth.tar");
  await berthArchive(file);
  await cluster.importImage(file);
  await makeVolumes(cluster);
  await cluster.kubectl(["create", "namespace", namespace]);
  const level = "pod-security.kubernetes.io/enforce=restricted";
  await cluster.kubectl(["label", "namespace", namespace, level]);
  await makeClaim(cluster);
  const values = {
    llamaImage,
    modelStorage: { storageClass, size: "1Gi" },
    slots: { primary: { model: { default: "tiny" } } },
    // No slot needs it: nobody fetches it, and nothing waits for it.
    models: { far: { source: "hf://owner/repo/far.gguf" } },
    // The Job gives each of its waits a third, and may go on without an engine that a slow machine ends late.
    uninstall: { seconds: 360 },
  };
  const release = ["berth", chartDirectory, "-n", namespace, "--wait", limit];
  const engine = async (): Promise<string> =>
    await kubectl("get", "pod", "berth-primary-main-0", "-o", "jsonpath={.metadata.uid} {.status.phase}");
  const serviceUrl = async (): Promise<string> =>
    `http://${await kubectl("get", "service", "berth", "-o", "jsonpath={.spec.clusterIP}")}:8080`;
  const answer = async (): Promise<string> => {
    const url = await serviceUrl();
    const messages = [{ role: "user", content: "hi" }];
    const body = JSON.stringify({ model: "primary", messages, max_tokens: 4 });
    const headers = { "content-type": "application/json" };
    // kube-proxy may still send to a Pod that ends, which refuses the connection. Every answer counts.
    const response = await until("the Service takes a connection", () =>
      fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body }),
    );
    return `${response.status} ${await response.text()}`;
  };

  await t.test("helm install until a chat is answered through the Service", async () => {
    const given = { ...values, gateway: { stateClaim: "state" } };
    const said = await helm(cluster, ["install", ...release], given).catch(async (error: unknown) => {
      const seen = await kubectl("get", "pods,events,pvc", "-o", "wide");
      const logs = await kubectl("logs", "-l", "app.kubernetes.io/part-of=berth", "--all-containers", "--tail=30");
      throw new Error(`${String(error)}\n${seen}\n${logs}`);
    });
    assert.match(said, /Berth keeps 1 slot of this release running/);
    await kubectl("wait", "--for=condition=Ready", limit, "slots.berth.dev/primary");
    assert.match(await answer(), /^200 .*"content"/);
  });

  await t.test("the command line is in the image, and the pages are", async () => {
    const slots = await kubectl("exec", "deployment/berth", "--", "berth", "slot", "list");
    assert.match(slots, /primary/);
    const made = ["token", "create", "--label", "me", "--scope", "admin"];
    assert.match(await kubectl("exec", "deployment/berth", "--", "berth", ...made), /^svc_/);
    assert.equal((await fetch(`${await serviceUrl()}/chat/`)).status, 200);
  });

  await t.test("claims that wait for a consumer are bound, and a gateway's state outlives its Pod", async () => {
    const claims = await kubectl("get", "pvc", "-o", "custom-columns=:.metadata.name,:.spec.volumeName,:.status.phase");
    assert.match(claims, /^berth-models +models +Bound\nstate +state +Bound$/m);
    const url = `${await serviceUrl()}/api/conversations/aaaaaaaa`;
    const conversation = {
      id: "aaaaaaaa",
      title: "kept",
      model: "primary",
      updated_at: "2026-01-01T00:00:00Z",
      parameters: { system: "", temperature: "", maxTokens: "" },
      messages: [],
    };
    const headers = { "content-type": "application/json" };
    const put = await fetch(url, { method: "PUT", headers, body: JSON.stringify(conversation) });
    assert.ok(put.ok, await put.text());
    await kubectl("rollout", "restart", "deployment/berth");
    await kubectl("rollout", "status", "deployment/berth", limit);
    const kept = await until("the new gateway answers", async () => {
      const answer = await fetch(url);
      return answer.status === 200 && (await answer.text());
    });
    assert.match(kept, /"title":"kept"/);
  });

  await t.test("helm test", async () => {
    assert.match(await helm(cluster, ["test", "berth", "-n", namespace, limit]), /Phase: +Succeeded/);
  });

  await t.test("a second release in the namespace is refused, and names the first", async () => {
    await assert.rejects(
      helm(cluster, ["install", "second", chartDirectory, "-n", namespace], values),
      /Berth is in the namespace ai already, as berth \(Deployment berth(-operator)?\): one installation per namespace/,
    );
  });

  await t.test("helm upgrade writes the CRDs, and restarts no engine", async () => {
    const before = await engine();
    assert.match(before, /Running$/);
    const more = { ...values, gateway: { replicas: 2 }, operator: { podAnnotations: { changed: "yes" } } };
    await helm(cluster, ["upgrade", ...release], more);
    const managers = ["--show-managed-fields", "-o", "jsonpath={.metadata.managedFields}"];
    assert.match(await cluster.kubectl(["get", "crd", "slots.berth.dev", ...managers]), /"manager":"berth-kinds"/);
    assert.equal(await engine(), before);
    assert.match(await answer(), /^200 /);
    assert.match(await kubectl("get", "pdb"), /berth/);
  });

  await t.test("helm uninstall ends in time, and leaves no slot that cannot be deleted", async () => {
    const own = { apiVersion: "berth.dev/v1alpha1", kind: "Slot", metadata: { name: "own" } };
    const spec = { model: { default: "tiny" } };
    await cluster.kubectl(["-n", namespace, "apply", "-f", "-"], JSON.stringify({ ...own, spec }));
    await kubectl("wait", "--for=condition=Ready", limit, "slots.berth.dev/own");
    const path = "jsonpath={range .items[*]}{.metadata.name}{.metadata.finalizers}{end}";
    const finalizers = (): Promise<string> => kubectl("get", "slots.berth.dev", "-o", path);
    assert.match(await finalizers(), /own\["berth\.dev\/engine"\]/);
    // The Job goes with its success.
    const end = new AbortController();
    const watching = watchLog(kubectl, end.signal);
    await helm(cluster, ["uninstall", "berth", "-n", namespace, "--wait", limit]).finally(() => end.abort());
    const said = await watching;
    // The effects of the Job are checked below in any case.
    if (said !== "")
      assert.match(said, /^slot primary: being deleted\ndeployment berth-operator: scaled to 0\nslot own: released\n/);
    assert.equal(await finalizers(), "own", "the release's own slot is gone, and the other is free");
    const left = "deployments,services,serviceaccounts,roles,rolebindings,networkpolicies,jobs";
    const names = await kubectl("get", left, "-l", "app.kubernetes.io/instance=berth", "-o", "name");
    assert.equal(names, "");
    const wide = ["get", "clusterroles,clusterrolebindings", "-l", "app.kubernetes.io/instance=berth", "-o", "name"];
    assert.equal(await cluster.kubectl(wide), "");
    assert.match(await kubectl("get", "pvc"), /berth-models +Bound/);
    await kubectl("delete", "slots.berth.dev/own", "--timeout=180s");
    await until("its Pod goes with it", async () => (await kubectl("get", "pods", "-o", "name")) === "");
  });

  await t.test("Helm 4 waits for every resource as well, at an installation and an upgrade", async () => {
    const helm4 = async (args: readonly string[], given?: object): Promise<string> =>
      await helm(cluster, args, given, "BERTH_TEST_HELM4");
    await helm4(["install", ...release], values);
    // No wait of ours: Helm 4 has waited for the Slot itself.
    assert.match(await answer(), /^200 .*"content"/);
    const before = await engine();
    await helm4(["upgrade", ...release], { ...values, slots: { ...values.slots, paused: { enabled: false } } });
    assert.equal(await engine(), before);
    assert.match(await kubectl("get", "slots.berth.dev/paused"), /paused/);
    assert.match(await kubectl("get", "models.berth.dev/far", "-o", "jsonpath={.status.conditions}"), /NotFetched/);
    await helm4(["uninstall", "berth", "-n", namespace, "--wait", limit]);
    assert.equal(await kubectl("get", "slots.berth.dev", "-o", "name"), "");
    assert.equal(await kubectl("get", "pods", "-l", "berth.dev/slot", "-o", "name"), "");
  });
});
