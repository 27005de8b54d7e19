import assert from "node:assert/strict";
import { before, after, describe, it } from "node:test";
import type { Preparation } from "../../src/runtimes/runtime.ts";
import { Daemon } from "../../src/runtimes/docker/daemon.ts";
import { Images } from "../../src/runtimes/docker/images.ts";
import { startRegistryDouble, type RegistryDouble } from "../doubles/registry.ts";
import { freePort } from "../support/free-port.ts";
import { until } from "../support/until.ts";
import { testSocket } from "./docker-site.ts";
import { prepare } from "../runtimes/docker/prepare.ts";

type Failed = Extract<Preparation, { state: "failed" }>;

/** What the daemon at hand says when an image cannot be had is understood: Docker and Podman have their own words. */
describe("an image that cannot be had", () => {
  let registry: RegistryDouble;
  before(async () => void (registry = await startRegistryDouble()));
  after(() => registry[Symbol.asyncDispose]());

  async function failure(image: string): Promise<Failed> {
    using daemon = new Daemon(testSocket());
    const images = new Images({ daemon, env: {}, onSlot: () => undefined });
    try {
      return await until("it has failed", async () => {
        const prepared = await prepare(images, "primary", image, "1");
        return prepared.state === "failed" && prepared;
      });
    } finally {
      await images.close();
    }
  }

  const json = { "content-type": "application/json" };
  const error = (code: string, message: string): object => ({ errors: [{ code, message }] });
  const challenge = { ...json, "www-authenticate": 'Basic realm="test"' };
  const docker = "application/vnd.docker.distribution.manifest";
  const platform = { architecture: "s390x", os: "linux" };
  const manifest = { mediaType: `${docker}.v2+json`, size: 1, digest: `sha256:${"0".repeat(64)}`, platform };
  const type = `${docker}.list.v2+json`;
  const manifests = { schemaVersion: 2, mediaType: type, manifests: [manifest] };

  type Row = readonly [what: string, status: number, headers: Record<string, string>, body: object, said: unknown[]];
  const rows: readonly Row[] = [
    ["is not there", 404, json, error("MANIFEST_UNKNOWN", "manifest unknown"), ["ImageNotFound", true]],
    ["is of no repository", 404, json, error("NAME_UNKNOWN", "repository not known"), ["ImageNotFound", true]],
    ["needs a password", 401, challenge, error("UNAUTHORIZED", "authentication required"), ["Unauthorized", true]],
    ["is denied, as ghcr.io says", 403, json, error("DENIED", "denied"), ["ImageNotFound", true]],
    ["is for another machine", 200, { "content-type": type }, manifests, ["WrongPlatform", true]],
    ["is on an overloaded registry", 429, json, error("TOOMANYREQUESTS", "rate limit"), ["PullFailed", false]],
  ];
  for (const [index, [what, status, headers, body, said]] of rows.entries()) {
    // Podman itself tries that again, for minutes.
    if (status === 429 && process.env["BERTH_TEST_ENGINE"] === "podman") continue;
    it(what, async () => {
      registry.answer(new RegExp(`image-${index}/manifests`), status, headers, body);
      const { reason, isTerminal } = await failure(`${registry.address}/image-${index}:1`);
      assert.deepEqual([reason, isTerminal], said);
    });
  }

  it("is on a registry that is not there", async () => {
    const { reason, isTerminal, retryAt } = await failure(`127.0.0.1:${await freePort()}/x:1`);
    assert.deepEqual([reason, isTerminal, retryAt !== undefined], ["PullFailed", false, true]);
  });
});
