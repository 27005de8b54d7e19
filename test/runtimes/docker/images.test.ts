import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { it } from "node:test";
import { repositoryOf } from "../../../src/api/image-reference.ts";
import { Images } from "../../../src/runtimes/docker/images.ts";
import type { Preparation } from "../../../src/runtimes/runtime.ts";
import { say, type DaemonAnswer } from "../../doubles/docker-daemon.ts";
import { until } from "../../support/until.ts";
import { daemonOf } from "./fixture.ts";
import { prepare } from "./prepare.ts";

const image = "registry.test/engine:1";
const pull = "POST /images/create";
const isMissing = (response: ServerResponse): void => say(response, 404, { message: "no such image" });

/** Images of a DOUBLE of a daemon. */
async function imagesOf(answer: DaemonAnswer, env: NodeJS.ProcessEnv = {}) {
  const at = await daemonOf(answer);
  const told: string[] = [];
  const images = new Images({ daemon: at.daemon, env, onSlot: (slot) => void told.push(slot) });
  return {
    images,
    told,
    asked: at.double.asked,
    pulls: () => at.count(pull),
    state: async (slot: string, attempt = "edit 1") => (await images.preparation(slot, image, attempt)).state,
    prepare: async (slot: string, attempt = "edit 1", named = image) => await prepare(images, slot, named, attempt),
    async [Symbol.asyncDispose]() {
      await images.close();
      await at[Symbol.asyncDispose]();
    },
  };
}

const refusing = async (message: string) =>
  await imagesOf((asked, response) => (asked === pull ? say(response, 500, { message }) : isMissing(response)));

function failureIn(found: Preparation): Extract<Preparation, { state: "failed" }> | undefined {
  return found.state === "failed" ? found : undefined;
}

it("a query for an image's state fetches nothing, and the state is absent for a slot that has not asked to fetch", async () => {
  await using at = await refusing("manifest unknown");
  assert.deepEqual([await at.state("a"), await at.state("a"), at.pulls()], ["absent", "absent", 0]);
  await at.images.fetch("a", image, "edit 1");
  assert.equal(await at.state("b"), "absent");
  await until("it has failed", async () => (await at.state("a")) === "failed");
  assert.deepEqual([await at.state("a", "edit 2"), await at.state("b"), at.pulls()], ["absent", "absent", 1]);
});

it("an image that is absent right after its fetch is not fetched again at once", async () => {
  await using at = await imagesOf((asked, response) => {
    if (asked === pull) response.end('{"status":"Status: Downloaded newer image"}\n');
    else isMissing(response);
  });
  const failed = await until("it is told", async () => failureIn(await at.prepare("a")));
  assert.match(failed.message, /could not be fetched \(it was fetched, and is missing\)/);
  assert.ok(failed.retryAt !== undefined);
  assert.equal(at.pulls(), 1);
});

it("the fetch of an image ends when the slot needs another or none, unless a further slot waits for it", async () => {
  const open = new Set<ServerResponse>();
  await using at = await imagesOf((asked, response) => {
    if (asked !== pull) return isMissing(response);
    open.add(response.writeHead(200));
    response.flushHeaders();
    response.once("close", () => open.delete(response));
  });
  for (const slot of ["a", "b"]) await at.prepare(slot);
  await until("it is fetched", () => open.size === 1);
  await at.prepare("a", "edit 2", `${image}-2`);
  await until("the second is fetched too", () => at.pulls() === 2);
  assert.equal(open.size, 2);
  await at.prepare("a", "edit 3", `${image}-3`);
  await until("the third is fetched", () => at.pulls() === 3);
  await at.images.keepOnly("a", [`${image}-3`]);
  await until("the second is not any more", () => open.size === 2);
  assert.equal(await at.state("b"), "fetching");
  await at.images.keepOnly("a", []);
  await until("the third is not any more", () => open.size === 1);
  await at.images.keepOnly("b", []);
  await until("nothing is fetched", () => open.size === 0);
  assert.equal(await at.state("b"), "absent");
});

it("an invalid image's name is refused without asking, and what the daemon refuses is said", async () => {
  await using at = await imagesOf((asked, response) =>
    asked.includes("Berth")
      ? say(response, 400, { message: "invalid reference format" })
      : say(response, 500, { message: "disk I/O" }),
  );
  const refused = async (name: string): Promise<unknown> => {
    const failure = failureIn(await at.prepare("a", "1", name));
    return [failure?.reason, failure?.isTerminal];
  };
  for (const name of ["Not A Name", "../containers/json", "a/../../x", "a?b=c", ""])
    assert.deepEqual(await refused(name), ["ImageNotFound", true], name);
  assert.deepEqual(at.asked, []);
  assert.deepEqual(await refused("Berth/engine:1"), ["ImageNotFound", true]);
  assert.deepEqual(await refused("berth/engine:1"), ["PullFailed", false]);
});

it("an image that is there is identified by its content, and by the digest of its repository where it has one", async () => {
  const found = { Id: "sha256:content", RepoDigests: ["other@sha256:0", `${repositoryOf(image)}@sha256:1`] };
  await using at = await imagesOf((_asked, response) => say(response, 200, found));
  const ready = { state: "ready", program: "sha256:content" };
  assert.deepEqual(await at.images.preparation("a", image, "edit 1"), { ...ready, digest: "sha256:1" });
  found.RepoDigests = [];
  assert.deepEqual(await at.images.preparation("a", image, "edit 1"), ready);
});
