import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import { join } from "node:path";
import { it } from "node:test";
import type { Workload } from "../../../src/api/workload.ts";
import { ApiError } from "../../../src/lib/kubernetes/api-error.ts";
import type { ApiClient, Method } from "../../../src/lib/kubernetes/client.ts";
import { fencedClient } from "../../../src/lib/kubernetes/fenced-client.ts";
import { openKubernetesRuntime } from "../../../src/runtimes/kubernetes/kubernetes.ts";
import { openPodRuntime } from "../../../src/runtimes/kubernetes/open.ts";
import type { Runtime } from "../../../src/runtimes/runtime.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { certificate } from "../../support/certificate.ts";
import { listen } from "../../support/listen.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { llama, site, workload } from "./manifests.ts";

const bearer = { env: "LLAMA_API_KEY" };
const withBearer: Workload = { ...workload, env: { LLAMA_API_KEY: "b3arer" }, bearer, container: llama };
const podPath = "/api/v1/namespaces/berth/pods/berth-primary-main-0";
const secretPath = "/api/v1/namespaces/berth/secrets/berth-primary-main-0";

interface Operator extends AsyncDisposable {
  readonly api: ApiDouble;
  readonly runtime: Runtime;
  /** Another operator takes over while this request of the runtime is on its way. */
  readonly loseAt: (method: Method, path: RegExp) => void;
}

async function operator(): Promise<Operator> {
  const api = new ApiDouble();
  let isLost = false;
  const check = (): void => {
    if (isLost) throw new Error("another operator leads");
  };
  const runtime = await openKubernetesRuntime({ client: fencedClient(api, check), site });
  const loseAt = (method: Method, path: RegExp): void => {
    const before = api.before;
    api.before = async (asked, at) => {
      await before(asked, at);
      if (asked === method && path.test(at)) isLost = true;
    };
  };
  return { api, runtime, loseAt, [Symbol.asyncDispose]: () => runtime[Symbol.asyncDispose]() };
}

const refused = /another operator leads/;

it("an operator that is deposed while it makes a Secret or a Pod sends neither", async () => {
  for (const kind of ["secrets", "pods"]) {
    await using deposed = await operator();
    const { api, runtime, loseAt } = deposed;
    loseAt("POST", new RegExp(`/${kind}$`));
    await assert.rejects(runtime.ensure(withBearer), refused);
    assert.equal(api.get(podPath), undefined);
    assert.equal(api.get(secretPath) === undefined, kind === "secrets");
  }
});

it("an operator that is deposed while it reads leaves the Secret of its successor's Pod", async () => {
  await using deposed = await operator();
  const { api, runtime, loseAt } = deposed;
  const theirs = {
    metadata: { uid: "theirs", labels: { "berth.dev/instance": "home" } },
    data: { LLAMA_API_KEY: "bmV3" },
  };
  api.put(secretPath, theirs);
  api.before = (method, path) => {
    if (method === "POST" && path.endsWith("/secrets")) throw new ApiError(409, "AlreadyExists", "it is there");
  };
  loseAt("GET", /\/secrets\//);
  await assert.rejects(runtime.ensure(withBearer), refused);
  assert.deepEqual(api.get(secretPath)?.["data"], theirs.data);
});

it("an operator that is deposed while it ends a Pod deletes nothing more", async () => {
  await using deposed = await operator();
  const { api, runtime, loseAt } = deposed;
  await runtime.ensure(withBearer);
  const metadata = { ...Object(api.get(podPath)?.["metadata"]), creationTimestamp: "2026-11-23T00:00:00Z" };
  api.put(podPath, { ...api.get(podPath), metadata });
  await until("the Pod is seen", async () => (await runtime.observe(workload.slot)).length === 1);
  loseAt("GET", /\/secrets\//);
  await assert.rejects(runtime.remove(workload.slot, undefined, { stopSeconds: 0 }), refused);
  assert.ok(api.get(podPath) !== undefined && api.get(secretPath) !== undefined);
});

it("a Pod is waited for as long as admission webhooks may take", async () => {
  const api = new ApiDouble();
  const limits: (number | undefined)[] = [];
  const client: ApiClient = {
    namespace: api.namespace,
    server: api.server,
    lines: (...call) => api.lines(...call),
    async request(method, path, call = {}) {
      if (method === "POST" && path.endsWith("/pods")) limits.push(call.timeoutMs);
      return await api.request(method, path, call);
    },
    [Symbol.dispose]: () => undefined,
  };
  await using runtime = await openKubernetesRuntime({ client: fencedClient(client, () => undefined), site });
  await runtime.ensure({ ...workload, container: llama });
  const [limitMs = 0] = limits;
  assert.ok(limitMs > 30_000, `${limitMs} ms`);
});

it("the runtime of an operator asks whether it leads right before a Pod is made", async () => {
  await using directory = await tempDir();
  let isLost = false;
  const seen: string[] = [];
  const server = createServer(certificate, (asked, answer) => {
    const { method = "", url = "" } = asked;
    seen.push(`${method} ${url}`);
    asked.resume();
    // The operator is deposed while it waits for this answer.
    if (url.endsWith("/pods/berth-primary-main-0")) isLost = true;
    answer.writeHead(404, { "content-type": "application/json" });
    answer.end(JSON.stringify({ kind: "Status", code: 404, message: "there is none" }));
  });
  const port = await listen(server);
  await using _closed = {
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  const authority = Buffer.from(certificate.cert).toString("base64");
  const cluster = { server: `https://127.0.0.1:${port}`, "tls-server-name": "hub.test" };
  const kubeconfig = {
    "current-context": "here",
    contexts: [{ name: "here", context: { cluster: "here", user: "me", namespace: "berth" } }],
    clusters: [{ name: "here", cluster: { ...cluster, "certificate-authority-data": authority } }],
    users: [{ name: "me", user: { token: "t" } }],
  };
  const KUBECONFIG = join(directory.path, "kubeconfig");
  await writeFile(KUBECONFIG, JSON.stringify(kubeconfig));
  const check = (): void => {
    if (isLost) throw new Error("another operator leads");
  };
  const paths = { modelsDir: "/models", stateDir: "/state", configDir: "/config" };
  const config = { ...paths, podModels: undefined, podVolumes: [], podLabels: [], unrestrictedContainers: false };
  const how = { config, instance: "home", env: { KUBECONFIG }, signal: AbortSignal.timeout(100), check };
  {
    await using runtime = await openPodRuntime(how);
    await assert.rejects(runtime.ensure({ ...workload, container: { ...llama, modelFiles: [] } }), refused);
  }
  const writes = (): readonly string[] => seen.filter((each) => !each.startsWith("GET"));
  assert.deepEqual(writes(), []);

  // The same runtime has the installation's places of secrets: the operator's files go into no Secret of a Pod.
  isLost = false;
  const secretsDir = join(directory.path, "secrets");
  await using runtime = await openPodRuntime({ ...how, config: { ...config, secretsDir } });
  await runtime.ensure({ ...workload, slot: "other", env: { KEY: { file: KUBECONFIG } }, container: llama });
  assert.deepEqual(writes(), []);
});
