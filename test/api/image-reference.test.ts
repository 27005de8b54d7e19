import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { repositoryOf } from "../../src/api/image-reference.ts";

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
