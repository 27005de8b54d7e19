import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { loadConfig } from "../../src/api/config.ts";
import { openRuntimes } from "../../src/runtimes/registry.ts";
import { say, startDockerDaemon } from "../doubles/docker-daemon.ts";
import { workload } from "../operator/fixture.ts";
import { plainContainer } from "../support/container.ts";
import { tempDir } from "../support/temp-dir.ts";

type Runtimes = Awaited<ReturnType<typeof openRuntimes>>;
type OpenArguments = Parameters<typeof openRuntimes>;

/** An installation in this directory. */
async function open(
  directory: string,
  settings: Readonly<Record<string, string>> = {},
  { published = [], env = {} }: { published?: OpenArguments[2]; env?: NodeJS.ProcessEnv } = {},
): Promise<Runtimes> {
  const paths = { SVC_STATE_DIR: directory, SVC_CONFIG_DIR: directory, SVC_MODELS_DIR: directory };
  // No daemon of this machine.
  const environment = { ...paths, SVC_DOCKER_HOST: `unix://${directory}/none.sock`, ...settings };
  const places = { isRoot: false, home: directory, xdgConfigHome: undefined, xdgStateHome: undefined };
  const { config, problems } = loadConfig(environment, {}, places);
  assert.deepEqual(problems, []);
  assert.ok(config !== undefined);
  return await openRuntimes(config, "test", published, { env });
}

/** Names a file that is not there. */
const kubeconfig = (directory: string) => ({ KUBECONFIG: join(directory, "kubeconfig") });

describe("what auto may choose", () => {
  it("is no cluster where slots are files, whatever KUBECONFIG says", async () => {
    await using directory = await tempDir();
    await using runtimes = await open(directory.path, {}, { env: kubeconfig(directory.path) });
    assert.deepEqual([runtimes.kinds, runtimes.offered], [["kubernetes", "docker", "process"], ["docker"]]);
  });

  it("is the cluster first where slots are its custom resources, which is opened at the start", async () => {
    await using directory = await tempDir();
    const settings = { SVC_STORE: "kubernetes", SVC_RUNTIME: "docker" };
    await using runtimes = await open(directory.path, settings);
    assert.deepEqual(runtimes.offered, ["kubernetes", "docker"]);
    // Else a slot would be placed elsewhere before another one names the cluster.
    const opening = open(directory.path, { SVC_STORE: "kubernetes" }, { env: kubeconfig(directory.path) });
    await assert.rejects(opening, /cannot be used as a kubeconfig/);
  });
});

describe("an engine's variable from a file", () => {
  const own = "it is a file of Berth itself or of a service account";

  it("holds none of Berth's own files, and in a cluster none but the installation's", async () => {
    await using directory = await tempDir();
    const file = join(directory.path, "token");
    await writeFile(file, "t0ken");
    const inCluster = { SVC_STORE: "kubernetes", SVC_RUNTIME: "process", SVC_ALLOW_PROCESSES: "1" };
    for (const [settings, why] of [
      [{}, own],
      [inCluster, `only files below ${directory.path}/secrets are read (SVC_SECRETS_DIR)`],
    ] as const) {
      await using runtimes = await open(directory.path, settings);
      await runtimes.ensure(workload({ env: { KEY: { file } } }));
      const [refused] = await runtimes.observe("primary");
      assert.equal(refused?.exit?.message, `env.KEY: its file cannot be read: ${why}`);
    }
  });

  it("is no file of Berth's own in a container either", async () => {
    await using directory = await tempDir();
    const file = join(directory.path, "token");
    await writeFile(file, "t0ken");
    await using daemon = await startDockerDaemon((asked, response) => {
      if (asked.includes("/events")) response.writeHead(200).flushHeaders();
      else if (asked.startsWith("GET /containers") || asked === "GET /networks") say(response, 200, []);
      else say(response, asked.startsWith("POST") ? 201 : 200, { Id: "made", Components: [] });
    });
    const settings = { SVC_DOCKER_HOST: `unix://${daemon.path}`, SVC_RUNTIME: "docker" };
    await using runtimes = await open(directory.path, settings);
    await runtimes.ensure(workload({ runtime: "docker", env: { KEY: { file } }, container: plainContainer }));
    const [refused] = await runtimes.observe("primary");
    assert.equal(refused?.exit?.message, `env.KEY: its file cannot be read: ${own}`);
    assert.ok(!daemon.asked.includes("POST /containers/create"));
  });
});

it("a cluster whose kubeconfig is gone concerns its slots alone, none counts as ended, and it is tried again", async () => {
  const reason = { name: "RuntimeUnavailable", message: /cannot be used as a kubeconfig/ };
  await using directory = await tempDir();
  const env = kubeconfig(directory.path);
  const published = [{ status: { runtime: "kubernetes" } }] as const;
  await using runtimes = await open(directory.path, {}, { published, env });
  await assert.rejects(runtimes.observe("pod", ["kubernetes"]), reason);
  await assert.rejects(runtimes.remove("pod", undefined, { stopSeconds: 1 }), reason);
  assert.deepEqual(await runtimes.observe("other", ["process"]), []);
  assert.deepEqual([await runtimes.list(), runtimes.answers("kubernetes")], [[], false]);
  runtimes.limitUnreachableWait(100);
  const config = {
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "k", user: "u" } }],
    // Nobody listens on this port.
    clusters: [{ name: "k", cluster: { server: "https://127.0.0.1:1" } }],
    users: [{ name: "u", user: { token: "t" } }],
  };
  await writeFile(env.KUBECONFIG, JSON.stringify(config));
  await assert.rejects(runtimes.observe("pod", ["kubernetes"]), { name: reason.name, message: /127\.0\.0\.1:1/ });
});
