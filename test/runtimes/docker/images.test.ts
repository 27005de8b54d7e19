import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it, mock } from "node:test";
import { Daemon } from "../../../src/runtimes/docker/daemon.ts";
import { repositoryOf } from "../../../src/api/image-reference.ts";
import { Images } from "../../../src/runtimes/docker/images.ts";
import { say, startDockerDaemon, type DockerDaemonDouble } from "../../doubles/docker-daemon.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { prepare } from "./prepare.ts";

const image = "registry.test/engine:1";
const pulls = ({ asked }: DockerDaemonDouble): number => asked.filter((what) => what === "POST /images/create").length;

/** For where timers stand still. */
async function turnsUntil(isSo: () => boolean): Promise<void> {
  const began = performance.now();
  while (!isSo()) {
    assert.ok(performance.now() - began < 60_000, "waited in vain");
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function fetching(
  refusal: string,
): Promise<
  AsyncDisposable & { readonly daemon: DockerDaemonDouble; readonly images: Images; readonly told: string[] }
> {
  const daemon = await startDockerDaemon((asked, response) => {
    if (asked === "POST /images/create") say(response, 500, { message: refusal });
    else say(response, 404, { message: "no such image" });
  });
  const told: string[] = [];
  const images = new Images({ daemon: new Daemon(daemon.path), env: {}, onSlot: (slot) => void told.push(slot) });
  return {
    daemon,
    images,
    told,
    async [Symbol.asyncDispose]() {
      await images.close();
      await daemon[Symbol.asyncDispose]();
    },
  };
}

it("a missing image is requested once by each slot that names it, and again when one of the slots changes", async () => {
  await using site = await fetching("manifest unknown");
  const { daemon, images } = site;
  const failed = async (slot: string, attempt: string): Promise<boolean> =>
    (await prepare(images, slot, image, attempt)).state === "failed";
  await until("the first fails", () => failed("a", "edit 1"));
  assert.equal(pulls(daemon), 1);
  await until("another slot has tried too", () => failed("b", "edit 7"));
  assert.equal(pulls(daemon), 2);
  for (const slot of ["a", "b", "a", "b"]) assert.equal(await failed(slot, slot === "a" ? "edit 1" : "edit 7"), true);
  assert.equal(pulls(daemon), 2);
  await until("an edit tries again", () => failed("a", "edit 2"));
  assert.equal(pulls(daemon), 3);
  assert.equal(await failed("b", "edit 7"), true);
  assert.equal(pulls(daemon), 3);
});

it("a query for an image's state fetches nothing, and the state is absent for a slot that has not asked to fetch", async () => {
  await using site = await fetching("manifest unknown");
  const { daemon, images } = site;
  const state = async (slot: string, attempt = "edit 1"): Promise<string> =>
    (await images.preparation(slot, image, attempt)).state;
  assert.deepEqual([await state("a"), await state("a"), pulls(daemon)], ["absent", "absent", 0]);
  await images.fetch("a", image, "edit 1");
  assert.equal(await state("b"), "absent");
  await until("it has failed", async () => (await state("a")) === "failed");
  assert.deepEqual([await state("a", "edit 2"), await state("b"), pulls(daemon)], ["absent", "absent", 1]);
});

it("a temporary failure is tried again at its time, and only if a slot still wants the image", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    await using site = await fetching("no space left on device");
    const { daemon, images, told } = site;
    const state = async (): Promise<string> => (await prepare(images, "a", image, "edit 1")).state;
    assert.equal(await state(), "fetching");
    await turnsUntil(() => told.length > 0);
    assert.equal(await state(), "failed");
    told.length = 0;
    mock.timers.tick(600_000);
    assert.deepEqual(told, ["a"]);
    // Nobody asks for a while: time enough for a pull that began by itself to be seen.
    for (let trips = 0; trips < 10; trips++) await new Daemon(daemon.path).settle((api) => api.info());
    assert.equal(pulls(daemon), 1);
    assert.equal(await state(), "fetching");
    await turnsUntil(() => pulls(daemon) === 2);
  } finally {
    mock.timers.reset();
  }
});

it("an image that is absent right after its fetch is not fetched again at once", async () => {
  const daemon = await startDockerDaemon((asked, response) => {
    if (asked === "POST /images/create") response.end('{"status":"Status: Downloaded newer image"}\n');
    else say(response, 404, { message: "no such image" });
  });
  const images = new Images({ daemon: new Daemon(daemon.path), env: {}, onSlot: () => undefined });
  try {
    const failed = await until("it is told", async () => {
      const prepared = await prepare(images, "a", image, "edit 1");
      return prepared.state === "failed" && prepared;
    });
    assert.match(failed.message, /could not be fetched \(it was fetched, and is missing\)/);
    assert.ok(failed.retryAt !== undefined);
    assert.equal(pulls(daemon), 1);
  } finally {
    await images.close();
    await daemon[Symbol.asyncDispose]();
  }
});

it("the fetch of an image ends when the slot needs another or none, unless a further slot waits for it", async () => {
  const open = new Set<ServerResponse>();
  await using daemon = await startDockerDaemon((asked, response) => {
    if (asked !== "POST /images/create") return say(response, 404, { message: "no such image" });
    open.add(response.writeHead(200));
    response.flushHeaders();
    response.once("close", () => open.delete(response));
  });
  const images = new Images({ daemon: new Daemon(daemon.path), env: {}, onSlot: () => undefined });
  try {
    for (const slot of ["a", "b"]) await prepare(images, slot, image, "edit 1");
    await until("it is fetched", () => open.size === 1);
    await prepare(images, "a", `${image}-2`, "edit 2");
    await until("the second is fetched too", () => pulls(daemon) === 2);
    assert.equal(open.size, 2);
    await prepare(images, "a", `${image}-3`, "edit 3");
    await until("the third is fetched", () => pulls(daemon) === 3);
    await images.keepOnly("a", [`${image}-3`]);
    await until("the second is not any more", () => open.size === 2);
    assert.equal((await images.preparation("b", image, "edit 1")).state, "fetching");
    await images.keepOnly("a", []);
    await until("the third is not any more", () => open.size === 1);
    await images.keepOnly("b", []);
    await until("nothing is fetched", () => open.size === 0);
    assert.equal((await images.preparation("b", image, "edit 1")).state, "absent");
  } finally {
    await images.close();
  }
});

it("closing does not wait for a credential helper that waits for a person", async () => {
  await using directory = await tempDir();
  const helper = join(directory.path, "docker-credential-slow");
  await writeFile(helper, `#!/bin/sh\n: >${directory.path}/asked\nexec sleep 600\n`, { mode: 0o755 });
  await writeFile(join(directory.path, "config.json"), JSON.stringify({ credsStore: "slow" }));
  const env = { DOCKER_CONFIG: directory.path, PATH: `${directory.path}:${process.env["PATH"] ?? ""}` };
  await using daemon = await startDockerDaemon((_asked, response) => say(response, 404, { message: "no such image" }));
  const images = new Images({ daemon: new Daemon(daemon.path), env, onSlot: () => undefined });
  await prepare(images, "a", image, "edit 1");
  await until("the helper is asked", () => existsSync(join(directory.path, "asked")));
  const began = performance.now();
  await images.close();
  // The helper itself is given ten seconds.
  assert.ok(performance.now() - began < 9000);
  assert.equal(pulls(daemon), 0);
});

it("an invalid image's name is refused without asking, and what the daemon refuses is said", async () => {
  const daemon = await startDockerDaemon((asked, response) =>
    asked.includes("Berth")
      ? say(response, 400, { message: "invalid reference format" })
      : say(response, 500, { message: "disk I/O" }),
  );
  const images = new Images({ daemon: new Daemon(daemon.path), env: {}, onSlot: () => undefined });
  try {
    for (const name of ["Not A Name", "../containers/json", "a/../../x", "a?b=c", ""]) {
      const refused = await prepare(images, "a", name, "1");
      assert.deepEqual(
        refused.state === "failed" && [refused.reason, refused.isTerminal],
        ["ImageNotFound", true],
        name,
      );
    }
    assert.deepEqual(daemon.asked, []);
    const upper = await prepare(images, "a", "Berth/engine:1", "1");
    assert.deepEqual(upper.state === "failed" && [upper.reason, upper.isTerminal], ["ImageNotFound", true]);
    const broken = await prepare(images, "a", "berth/engine:1", "1");
    assert.deepEqual(broken.state === "failed" && [broken.reason, broken.isTerminal], ["PullFailed", false]);
  } finally {
    await images.close();
    await daemon[Symbol.asyncDispose]();
  }
});

it("an image that is there is identified by its content, and by the digest of its repository where it has one", async () => {
  const found = { Id: "sha256:content", RepoDigests: ["other@sha256:0", `${repositoryOf(image)}@sha256:1`] };
  await using daemon = await startDockerDaemon((_asked, response) => say(response, 200, found));
  const images = new Images({ daemon: new Daemon(daemon.path), env: {}, onSlot: () => undefined });
  assert.deepEqual(await images.preparation("a", image, "edit 1"), {
    state: "ready",
    program: "sha256:content",
    digest: "sha256:1",
  });
  found.RepoDigests = [];
  assert.deepEqual(await images.preparation("a", image, "edit 1"), { state: "ready", program: "sha256:content" });
  await images.close();
});
