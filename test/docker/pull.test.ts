import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import Dockerode from "dockerode";
import { conditionOf } from "../../src/cli/slot-words.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";
import { testSocket } from "./docker-site.ts";
import { engineImage, importVariant } from "./images.ts";
import { startRegistry, type Registry } from "./registry.ts";

const api = new Dockerode({ socketPath: testSocket() });
let registry: Registry;
let image = "";

before(async () => {
  registry = await startRegistry();
  await importVariant(testSocket(), "berth-test/variant:1");
  image = await registry.take(testSocket(), "berth-test/variant:1");
});
after(async () => {
  await registry[Symbol.asyncDispose]();
});

function slot(from: string): string {
  return `engine = "custom"\nimage = "${from}"\n[model]\ndefault = "double"\n`;
}

async function berth(from: string, env: NodeJS.ProcessEnv = {}): Promise<RunningBerth> {
  return await startBerth({
    env: { SVC_RUNTIME: "docker", DOCKER_HOST: `unix://${testSocket()}`, ...env },
    prepare: async ({ configDir }) => await writeFile(join(configDir, "slots/primary.toml"), slot(from)),
  });
}

async function condition(running: RunningBerth, type: string): Promise<string> {
  const found = conditionOf(await running.slot("primary"), type);
  return found === undefined ? "none" : `${found.status}/${found.reason}`;
}

async function forget(name: string): Promise<void> {
  for (const { Id: id, RepoTags: tags, RepoDigests: digests } of await api.listImages({ digests: true })) {
    const names = [...(tags ?? []), ...(digests ?? [])];
    if (names.some((known) => known.startsWith(name.replace(/:[^:/]*$/, ""))))
      await api.getImage(id).remove({ force: true });
  }
}

test(
  "an image is fetched with progress, runs by its digest, and the digest is remembered",
  { timeout: 300_000 },
  async () => {
    await forget(image);
    // Enough for Docker to say a word of it.
    registry.shut(2_000_000);
    await using running = await berth(image);
    await running.state("primary", "pulling");
    assert.equal(await condition(running, "Available"), "False/Pulling");
    assert.equal(await condition(running, "Reconciling"), "True/Pulling");
    const progress = await until("bytes are counted", async () => {
      const seen = (await readPublished(running.stateDir, "primary"))?.status.progress;
      return (seen?.bytesDone ?? 0) > 0 && seen;
    });
    assert.ok((progress.bytesTotal ?? 0) > progress.bytesDone);
    registry.open();
    await until(
      "it is ready",
      async () => ["ready", "idle"].includes(String((await running.slot("primary"))["state"])),
      180_000,
    );
    const published = (await readPublished(running.stateDir, "primary"))?.status;
    assert.match(published?.imageDigest ?? "", /^sha256:[0-9a-f]{64}$/);
    assert.equal(published?.progress, undefined);
    assert.ok((published?.lastLoad?.pullSeconds ?? 0) > 0);
    const lock = await readFile(join(running.stateDir, "engines.lock.yaml"), "utf8");
    assert.ok(lock.includes(`${image}: ${published?.imageDigest}`));
    assert.deepEqual(
      published?.transitions.slice(0, 2).map(({ to }) => to),
      ["pulling", "starting"],
    );
  },
);

test("the old container serves until an edited slot's new image has been fetched", { timeout: 300_000 }, async () => {
  await forget(image);
  registry.shut();
  await using running = await berth(engineImage);
  await running.state("primary", "ready", "idle");
  const old = (await readPublished(running.stateDir, "primary"))?.status.processes[0]?.containerId;
  assert.ok(old !== undefined);
  await writeFile(join(running.configDir, "slots/primary.toml"), slot(image));
  await until("it is being fetched", async () => (await condition(running, "Reconciling")) === "True/Pulling");
  assert.equal(await condition(running, "Available"), "True/Loaded");
  assert.equal(await condition(running, "Ready"), "Unknown/Progressing");
  assert.equal((await api.getContainer(old).inspect()).State.Running, true);
  registry.open();
  await until(
    "the next runs",
    async () => {
      const status = (await readPublished(running.stateDir, "primary"))?.status;
      return status?.state === "ready" && status.processes[0]?.containerId !== old;
    },
    180_000,
  );
});

test("a registry that asks for a password gets the one that docker login stored", { timeout: 300_000 }, async () => {
  await using guarded = await startRegistry();
  await importVariant(testSocket(), "berth-test/guarded:1");
  const name = await guarded.take(testSocket(), "berth-test/guarded:1");
  await forget(name);
  guarded.demand("ada", "s3cret:with:colons");
  await using running = await berth(name);
  await running.state("primary", "error");
  assert.equal(await condition(running, "Stalled"), "True/Unauthorized");
  const docker = join(running.stateDir, "../.docker");
  await mkdir(docker);
  const auth = Buffer.from("ada:s3cret:with:colons").toString("base64");
  await writeFile(join(docker, "config.json"), JSON.stringify({ auths: { [guarded.address]: { auth } } }));
  await writeFile(join(running.configDir, "slots/primary.toml"), `${slot(name)}[env]\nAGAIN = "1"\n`);
  await until(
    "it is ready",
    async () => ["ready", "idle"].includes(String((await running.slot("primary"))["state"])),
    180_000,
  );
});
