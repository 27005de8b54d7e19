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

  const error = (code: string, message: string): object => ({ errors: [{ code, message }] });
  const json = { "content-type": "application/json" };

  it("is not there", async () => {
    registry.answer(/none\/manifests/, 404, json, error("MANIFEST_UNKNOWN", "manifest unknown"));
    const { reason, isTerminal } = await failure(`${registry.address}/none:1`);
    assert.deepEqual([reason, isTerminal], ["ImageNotFound", true]);
  });

  it("is of no repository", async () => {
    registry.answer(/nowhere\/manifests/, 404, json, error("NAME_UNKNOWN", "repository name not known to registry"));
    const { reason, isTerminal } = await failure(`${registry.address}/nowhere:1`);
    assert.deepEqual([reason, isTerminal], ["ImageNotFound", true]);
  });

  it("needs a password", async () => {
    const challenge = { ...json, "www-authenticate": 'Basic realm="test"' };
    registry.answer(/guarded\/manifests/, 401, challenge, error("UNAUTHORIZED", "authentication required"));
    const { reason, isTerminal } = await failure(`${registry.address}/guarded:1`);
    assert.deepEqual([reason, isTerminal], ["Unauthorized", true]);
  });

  it("is denied, as ghcr.io says", async () => {
    registry.answer(/private\/manifests/, 403, json, error("DENIED", "denied"));
    const { reason, isTerminal } = await failure(`${registry.address}/private:1`);
    assert.deepEqual([reason, isTerminal], ["ImageNotFound", true]);
  });

  it("is for another machine", async () => {
    const type = "application/vnd.docker.distribution.manifest.list.v2+json";
    const manifest = {
      mediaType: "application/vnd.docker.distribution.manifest.v2+json",
      size: 1,
      digest: `sha256:${"0".repeat(64)}`,
      platform: { architecture: "s390x", os: "linux" },
    };
    const list = { schemaVersion: 2, mediaType: type, manifests: [manifest] };
    registry.answer(/foreign\/manifests/, 200, { "content-type": type }, list);
    const { reason, isTerminal } = await failure(`${registry.address}/foreign:1`);
    assert.deepEqual([reason, isTerminal], ["WrongPlatform", true]);
  });

  it("is on a registry that is not there", async () => {
    const { reason, isTerminal, retryAt } = await failure(`127.0.0.1:${await freePort()}/x:1`);
    assert.deepEqual([reason, isTerminal, retryAt !== undefined], ["PullFailed", false, true]);
  });

  // Podman itself tries that again, for minutes.
  if (process.env["BERTH_TEST_ENGINE"] === "podman") return;
  it("is on a registry that is overloaded", async () => {
    registry.answer(/busy\/manifests/, 429, json, error("TOOMANYREQUESTS", "rate limit"));
    const { reason, isTerminal } = await failure(`${registry.address}/busy:1`);
    assert.deepEqual([reason, isTerminal], ["PullFailed", false]);
  });
});
