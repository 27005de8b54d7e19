import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import type { Method } from "../../../src/kubernetes/client.ts";
import { fencedClient } from "../../../src/kubernetes/fenced-client.ts";
import { openPodRuntime } from "../../../src/runtimes/kubernetes/open.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { certificate } from "../../support/certificate.ts";
import { listen } from "../../support/listen.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { plain, podPath, podsOn, secretPath, start, withBearer, type Pods } from "./fixture.ts";
import { llama } from "./manifests.ts";

interface Operator extends Pods {
  /** Another operator takes over while this request of the runtime is on its way. */
  readonly loseAt: (method: Method, path: RegExp) => void;
}

async function operator(): Promise<Operator> {
  const api = new ApiDouble();
  let isLost = false;
  const check = (): void => {
    if (isLost) throw new Error("another operator leads");
  };
  const pods = await podsOn(api, { client: fencedClient(api, check) });
  const loseAt = (method: Method, path: RegExp): void => {
    const before = api.before;
    api.before = async (asked, at) => {
      await before(asked, at);
      if (asked === method && path.test(at)) isLost = true;
    };
  };
  return { ...pods, loseAt };
}

const refused = /another operator leads/;

describe("an operator that is deposed", () => {
  it("while it makes a Secret or a Pod sends neither", async () => {
    for (const kind of ["secrets", "pods"]) {
      await using deposed = await operator();
      deposed.loseAt("POST", new RegExp(`/${kind}$`));
      await assert.rejects(deposed.runtime.ensure(withBearer), refused);
      assert.equal(deposed.api.get(podPath), undefined);
      assert.equal(deposed.api.get(secretPath) === undefined, kind === "secrets");
    }
  });

  it("while it reads leaves the Secret of its successor's Pod", async () => {
    await using deposed = await operator();
    const { api, runtime, loseAt } = deposed;
    const metadata = { uid: "theirs", labels: { "berth.dev/instance": "home" } };
    const theirs = { metadata, data: { LLAMA_API_KEY: "bmV3" } };
    api.put(secretPath, theirs);
    api.before = (method, path) => {
      if (method === "POST" && path.endsWith("/secrets")) throw new ApiError(409, "AlreadyExists", "it is there");
    };
    loseAt("GET", /\/secrets\//);
    await assert.rejects(runtime.ensure(withBearer), refused);
    assert.deepEqual(api.get(secretPath)?.["data"], theirs.data);
  });

  it("while it ends a Pod deletes nothing more", async () => {
    await using deposed = await operator();
    const { api, runtime, loseAt } = deposed;
    await start(deposed, { of: withBearer });
    loseAt("GET", /\/secrets\//);
    await assert.rejects(runtime.remove("primary", undefined, { stopSeconds: 0 }), refused);
    assert.ok(api.get(podPath) !== undefined && api.get(secretPath) !== undefined);
  });
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
    await assert.rejects(runtime.ensure({ ...plain, container: { ...llama, modelFiles: [] } }), refused);
  }
  const writes = (): readonly string[] => seen.filter((each) => !each.startsWith("GET"));
  assert.deepEqual(writes(), []);

  // The same runtime has the installation's places of secrets: the operator's files go into no Secret of a Pod.
  isLost = false;
  const secretsDir = join(directory.path, "secrets");
  await using runtime = await openPodRuntime({ ...how, config: { ...config, secretsDir } });
  await runtime.ensure({ ...plain, slot: "other", env: { KEY: { file: KUBECONFIG } } });
  assert.deepEqual(writes(), []);
});

it("a Pod is waited for as long as admission webhooks may take", async () => {
  const api = new ApiDouble();
  const limits: (number | undefined)[] = [];
  const request = api.request.bind(api);
  api.request = async (method, path, call) => {
    if (method === "POST" && path.endsWith("/pods")) limits.push(call?.timeoutMs);
    return await request(method, path, call);
  };
  await using pods = await podsOn(api, { client: fencedClient(api, () => undefined) });
  await pods.runtime.ensure(plain);
  const [limitMs = 0] = limits;
  assert.ok(limitMs > 30_000, `${limitMs} ms`);
});
