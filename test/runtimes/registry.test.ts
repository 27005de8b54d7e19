import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { loadConfig, type Config } from "../../src/api/config.ts";
import type { Workload } from "../../src/api/workload.ts";
import { openRuntimes } from "../../src/runtimes/registry.ts";
import { say, startDockerDaemon } from "../doubles/docker-daemon.ts";
import { plainContainer } from "../support/container.ts";
import { tempDir } from "../support/temp-dir.ts";

function configOf(directory: string, settings: Readonly<Record<string, string>>): Config {
  const paths = { SVC_STATE_DIR: directory, SVC_CONFIG_DIR: directory, SVC_MODELS_DIR: directory };
  // No daemon of this machine.
  const environment = { ...paths, SVC_DOCKER_HOST: `unix://${directory}/none.sock`, ...settings };
  const places = { isRoot: false, home: directory, xdgConfigHome: undefined, xdgStateHome: undefined };
  const { config, problems } = loadConfig(environment, {}, places);
  assert.deepEqual(problems, []);
  assert.ok(config !== undefined);
  return config;
}

const workload: Workload = {
  slot: "primary",
  role: "main",
  ordinal: 0,
  hash: "hash-1",
  runtime: "process",
  command: [process.execPath, "--version"],
  env: {},
  workingDir: undefined,
  port: 1,
  stopSeconds: 1,
};

describe("what auto may choose", () => {
  it("is no cluster where slots are files, whatever KUBECONFIG says", async () => {
    await using directory = await tempDir();
    const env = { KUBECONFIG: join(directory.path, "kubeconfig") };
    await using runtimes = await openRuntimes(configOf(directory.path, {}), "test", [], { env });
    assert.deepEqual([runtimes.kinds, runtimes.offered], [["kubernetes", "docker", "process"], ["docker"]]);
  });

  it("is the cluster first where slots are its custom resources", async () => {
    await using directory = await tempDir();
    const config = configOf(directory.path, { SVC_STORE: "kubernetes", SVC_RUNTIME: "docker" });
    await using runtimes = await openRuntimes(config, "test", [], { env: {} });
    assert.deepEqual(runtimes.offered, ["kubernetes", "docker"]);
  });

  it("opens that cluster at the start, so that no slot is placed elsewhere before another names it", async () => {
    await using directory = await tempDir();
    const config = configOf(directory.path, { SVC_STORE: "kubernetes" });
    const env = { KUBECONFIG: join(directory.path, "kubeconfig") };
    await assert.rejects(openRuntimes(config, "test", [], { env }), /cannot be used as a kubeconfig/);
  });
});

describe("an engine's variable from a file", () => {
  it("holds none of Berth's own files, and in a cluster none but the installation's", async () => {
    await using directory = await tempDir();
    await writeFile(join(directory.path, "token"), "t0ken");
    const cases = [
      [{}, "it is a file of Berth itself or of a service account"],
      [
        { SVC_STORE: "kubernetes", SVC_RUNTIME: "process", SVC_ALLOW_PROCESSES: "1" },
        `only files below ${directory.path}/secrets are read (SVC_SECRETS_DIR)`,
      ],
    ] as const;
    for (const [settings, why] of cases) {
      await using runtimes = await openRuntimes(configOf(directory.path, settings), "test", [], { env: {} });
      await runtimes.ensure({ ...workload, env: { KEY: { file: join(directory.path, "token") } } });
      const [process] = await runtimes.observe(workload.slot);
      assert.equal(process?.exit?.message, `env.KEY: its file cannot be read: ${why}`);
    }
  });

  it("is no file of Berth's own in a container either", async () => {
    await using directory = await tempDir();
    await writeFile(join(directory.path, "token"), "t0ken");
    await using daemon = await startDockerDaemon((asked, response) => {
      if (asked.includes("/events")) response.writeHead(200).flushHeaders();
      else if (asked.startsWith("GET /containers") || asked === "GET /networks") say(response, 200, []);
      else say(response, asked.startsWith("POST") ? 201 : 200, { Id: "made", Components: [] });
    });
    const settings = { SVC_DOCKER_HOST: `unix://${daemon.path}`, SVC_RUNTIME: "docker" };
    await using runtimes = await openRuntimes(configOf(directory.path, settings), "test", [], { env: {} });
    const env = { KEY: { file: join(directory.path, "token") } };
    await runtimes.ensure({ ...workload, runtime: "docker", env, container: plainContainer });
    const [refused] = await runtimes.observe(workload.slot);
    const why = "it is a file of Berth itself or of a service account";
    assert.equal(refused?.exit?.message, `env.KEY: its file cannot be read: ${why}`);
    assert.ok(!daemon.asked.includes("POST /containers/create"));
  });
});

describe("a cluster whose kubeconfig is gone", () => {
  const reason = { name: "RuntimeUnavailable", message: /cannot be used as a kubeconfig/ };

  it("concerns the slots that ran there alone, and none of its engines counts as ended", async () => {
    await using directory = await tempDir();
    const env = { KUBECONFIG: join(directory.path, "kubeconfig") };
    const published = [{ status: { runtime: "kubernetes" } }] as const;
    await using runtimes = await openRuntimes(configOf(directory.path, {}), "test", published, { env });
    await assert.rejects(runtimes.observe("pod", ["kubernetes"]), reason);
    await assert.rejects(runtimes.remove("pod", undefined, { stopSeconds: 1 }), reason);
    assert.deepEqual(await runtimes.observe("other", ["process"]), []);
    assert.deepEqual([await runtimes.list(), runtimes.answers("kubernetes")], [[], false]);
  });

  it("is tried again with the kubeconfig that is there by then", async () => {
    await using directory = await tempDir();
    const env = { KUBECONFIG: join(directory.path, "kubeconfig") };
    const published = [{ status: { runtime: "kubernetes" } }] as const;
    await using runtimes = await openRuntimes(configOf(directory.path, {}), "test", published, { env });
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
});
