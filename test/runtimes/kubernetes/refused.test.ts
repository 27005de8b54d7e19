import assert from "node:assert/strict";
import { it } from "node:test";
import { ApiError } from "../../../src/lib/kubernetes/api-error.ts";
import { openKubernetesRuntime } from "../../../src/runtimes/kubernetes/kubernetes.ts";
import { isRecord } from "../../../src/lib/record.ts";
import type { Runtime } from "../../../src/runtimes/runtime.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";
import { podAnnotations, podLabels } from "../../../src/runtimes/kubernetes/pod-label.ts";
import { llama, site, workload } from "./manifests.ts";

it("a Pod that the API server refuses leaves no Secret behind", async () => {
  const api = new ApiDouble();
  await using runtime = await openKubernetesRuntime({ client: api, site });
  api.before = (method, path) => {
    if (method === "POST" && path.endsWith("/pods")) throw new ApiError(422, "Invalid", "spec.nodeName: not a name");
  };
  const bearer = { env: "LLAMA_API_KEY" };
  await runtime.ensure({ ...workload, env: { LLAMA_API_KEY: "b3arer" }, bearer, container: llama });
  const [refused] = await runtime.observe(workload.slot);
  assert.deepEqual([refused?.phase, refused?.exit?.reason], ["exited", "StartFailed"]);
  assert.ok(api.seen.some((each) => /^POST .*\/secrets$/.test(each)));
  assert.equal(api.get("/api/v1/namespaces/berth/secrets/berth-primary-main-0"), undefined);
});

it("a Secret of its bearer that does not exist yet is named, and is no fault of the workload", async () => {
  const api = new ApiDouble();
  await using runtime = await openKubernetesRuntime({ client: api, site });
  const bearer = { env: "LLAMA_API_KEY" };
  const env = { LLAMA_API_KEY: { secretKeyRef: { name: "keys", key: "primary" } } };
  await runtime.ensure({ ...workload, env, bearer, container: llama });
  const [refused] = await runtime.observe(workload.slot);
  assert.deepEqual(
    [refused?.exit?.reason, refused?.exit?.message],
    ["NoSecret", "env.LLAMA_API_KEY: the Secret keys has no key primary, or does not exist"],
  );
  api.put("/api/v1/namespaces/berth/secrets/keys", {
    data: { primary: Buffer.from("b3arer").toString("base64") },
  });
  await runtime.ensure({ ...workload, env, bearer, container: llama });
  assert.ok(api.get("/api/v1/namespaces/berth/pods/berth-primary-main-0") !== undefined);
});

it("a file outside of the installation's directory reaches no Pod", async () => {
  const api = new ApiDouble();
  const secrets = { below: "/etc/berth/secrets", never: [] };
  await using runtime = await openKubernetesRuntime({ client: api, site, secrets });
  await runtime.ensure({ ...workload, env: { KEY: { file: "/etc/hostname" } }, container: llama });
  const [refused] = await runtime.observe(workload.slot);
  const message = "env.KEY: its file cannot be read: only files below /etc/berth/secrets are read (SVC_SECRETS_DIR)";
  assert.deepEqual([refused?.exit?.reason, refused?.exit?.message], ["StartFailed", message]);
  assert.ok(!api.seen.some((each) => each.startsWith("POST")));
});

const secretPath = "/api/v1/namespaces/berth/secrets/berth-primary-main-0";

/** Starts the slot with a bearer; the double gives its Pod the time that an API server gives. */
async function startWithSecret(api: ApiDouble, runtime: Runtime): Promise<void> {
  const bearer = { env: "LLAMA_API_KEY" };
  await runtime.ensure({ ...workload, env: { LLAMA_API_KEY: "b3arer" }, bearer, container: llama });
  const path = "/api/v1/namespaces/berth/pods/berth-primary-main-0";
  const pod = api.get(path);
  assert.ok(isRecord(pod?.["metadata"]) && api.get(secretPath) !== undefined);
  api.put(path, { ...pod, metadata: { ...pod["metadata"], creationTimestamp: "2026-11-23T00:00:00Z" } });
  await until("the Pod is seen", async () => (await runtime.observe(workload.slot)).length === 1);
}

it("the Secret of a Pod goes with it", async () => {
  const api = new ApiDouble();
  await using runtime = await openKubernetesRuntime({ client: api, site });
  await startWithSecret(api, runtime);
  await runtime.remove(workload.slot, undefined, { stopSeconds: 0 });
  assert.equal(api.get(secretPath), undefined);
});

it("the Secret that another operator has made while a Pod ended stays", async () => {
  const api = new ApiDouble();
  await using runtime = await openKubernetesRuntime({ client: api, site });
  await startWithSecret(api, runtime);
  api.before = (method, path) => {
    if (method !== "DELETE" || !path.endsWith("/pods/berth-primary-main-0")) return;
    api.before = () => undefined;
    api.put(secretPath, undefined);
    api.put(secretPath, { metadata: { name: "berth-primary-main-0", uid: "of the other operator" } });
  };
  await runtime.remove(workload.slot, undefined, { stopSeconds: 0 });
  assert.match(JSON.stringify(api.get(secretPath)), /of the other operator/);
});

it("a Pod whose container the kubelet has started again after a boot is taken over as another start, also where that is seen late", async () => {
  const api = new ApiDouble();
  const path = "/api/v1/namespaces/berth/pods/berth-primary-main-0";
  const spec = { nodeName: "nas", containers: [{ name: "engine", image: llama.image }] };
  const labels = podLabels(workload, site.instance);
  const annotations = podAnnotations(workload, { hasBearer: false, startedAt: new Date(0) });
  const identity = { name: "berth-primary-main-0", uid: "1", creationTimestamp: "2026-11-23T00:00:00Z" };
  const lost = { exitCode: 255, reason: "Unknown" };
  const again = (restartCount: number, startedAt: string, { state = {}, terminated = lost } = {}): void => {
    const running = { running: { startedAt }, ...state };
    const engine = { name: "engine", restartCount, ready: true, started: true, state: running };
    const lastState = { terminated: { ...terminated, finishedAt: startedAt } };
    const status = { podIP: "10.42.0.9", phase: "Running", containerStatuses: [{ ...engine, lastState }] };
    api.put(path, { metadata: { ...identity, labels, annotations }, spec, status });
  };
  again(1, "2026-11-24T00:00:00Z");
  await using runtime = await openKubernetesRuntime({ client: api, site });
  const seen = async (): Promise<unknown[]> =>
    (await runtime.observe(workload.slot)).map(({ phase, host, startedAt, isListening, exit }) => [
      phase,
      host,
      startedAt.toISOString(),
      isListening,
      exit?.reason,
    ]);
  const found = ["running", "10.42.0.9", "2026-11-24T00:00:00.000Z", true, undefined];
  assert.deepEqual(await seen(), [found]);
  await runtime.ensure({ ...workload, container: llama });
  assert.deepEqual(await seen(), [found], "it is not replaced");
  // The Pod that was seen first was from before the boot: its container is gone, and then there again.
  again(1, "2026-11-24T00:00:00Z", { state: { running: undefined, terminated: lost } });
  await until("it does not listen", async () => (await runtime.observe(workload.slot))[0]?.isListening === false);
  assert.equal((await runtime.observe(workload.slot))[0]?.phase, "running", "the kubelet starts it again");
  again(2, "2026-11-24T00:01:00Z");
  const later = ["running", "10.42.0.9", "2026-11-24T00:01:00.000Z", true, undefined];
  await until("it listens", async () => (await runtime.observe(workload.slot))[0]?.isListening);
  assert.deepEqual(await seen(), [later]);
  again(3, "2026-11-24T00:02:00Z", { terminated: { exitCode: 1, reason: "Error" } });
  await until("its next end is an end", async () => (await runtime.observe(workload.slot))[0]?.phase === "exited");
});

it("a Pod that a request has caused is younger than the request, although the API server counts whole seconds", async () => {
  const api = new ApiDouble();
  await using runtime = await openKubernetesRuntime({ client: api, site });
  const requestedAt = new Date();
  await runtime.ensure({ ...workload, container: llama });
  const path = "/api/v1/namespaces/berth/pods/berth-primary-main-0";
  const pod = api.get(path);
  assert.ok(isRecord(pod?.["metadata"]));
  const creationTimestamp = `${requestedAt.toISOString().slice(0, 19)}Z`;
  api.put(path, { ...pod, metadata: { ...pod["metadata"], creationTimestamp } });
  const [seen] = await until("the Pod is seen", async () => {
    const all = await runtime.observe(workload.slot);
    return all.length > 0 && all;
  });
  assert.ok(seen !== undefined && seen.startedAt >= requestedAt, `${seen?.startedAt.toISOString()}`);
});
