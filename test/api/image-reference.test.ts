import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { imageReference, repositoryOf } from "../../src/api/image-reference.ts";

describe("repositoryOf", () => {
  for (const [image, repository] of [
    ["llama", "llama"],
    ["llama:server", "llama"],
    ["registry:5000/llama", "registry:5000/llama"],
    ["registry:5000/a/llama:1", "registry:5000/a/llama"],
    ["ghcr.io/a/b:1@sha256:0", "ghcr.io/a/b"],
  ] as const) {
    it(`leaves ${repository} of ${image}`, () => assert.equal(repositoryOf(image), repository));
  }
});

const sha = "a".repeat(64);

it("an image reference is one that container engines take, and no part of it changes a URL's path", () => {
  const names = ["redis", "redis:7", "library/redis", "ghcr.io/a/b-c_d.e:v1.0", "localhost/berth:1", "Host.test/x"];
  const hosts = ["127.0.0.1:5000/x", "[::1]:5000/x"];
  const digests = [`ghcr.io/a/b@sha256:${sha}`, `ghcr.io/a/b:1@sha256:${sha}`, `sha256:${sha}`];
  for (const name of [...names, ...hosts, ...digests]) assert.ok(imageReference.test(name), name);
  const paths = ["../a", "a/../b", "a//b", "/a", "a/", "a?x", "a#x", "a%2e"];
  for (const name of [...paths, "", "a b", "A", "a/B", "a:b c", "a@b", "-a", "a\n"])
    assert.ok(!imageReference.test(name), JSON.stringify(name));
});
