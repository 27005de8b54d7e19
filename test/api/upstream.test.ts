import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { upstreamRules, upstreamSpecSchema } from "../../src/api/upstream.ts";

const baseUrl = "https://api.example.com/v1";

describe("upstream", () => {
  it("has these defaults", () => {
    assert.deepEqual(upstreamSpecSchema.parse({ baseUrl, discover: {} }), {
      baseUrl,
      auth: { type: "none" },
      models: [],
      discover: { intervalSeconds: 300, prefix: "" },
      headers: {},
      timeoutSeconds: 300,
      connectSeconds: 5,
      retries: 1,
      capabilities: ["chat", "completions", "embeddings"],
    });
  });

  const auths: readonly object[] = [
    { type: "none" },
    { type: "bearer", valueFrom: { env: "KEY" } },
    { type: "bearer", valueFrom: { file: "/run/key" } },
    { type: "header", header: "x-api-key", valueFrom: { secretKeyRef: { name: "n", key: "k" } } },
  ];
  for (const auth of auths) {
    it(`takes auth ${JSON.stringify(auth)}`, () => {
      assert.deepEqual(upstreamSpecSchema.parse({ baseUrl, auth }).auth, auth);
    });
  }

  const refused: readonly Record<string, unknown>[] = [
    { baseUrl: "api.example.com" },
    { baseUrl: "ftp://example.com" },
    { auth: { type: "bearer" } },
    { auth: { type: "bearer", value: "sk-literal" } },
    { auth: { type: "bearer", valueFrom: "sk-literal" } },
    { auth: { type: "bearer", valueFrom: { env: "A", file: "/b" } } },
    { auth: { type: "bearer", valueFrom: { file: "key" } } },
    { auth: { type: "header", valueFrom: { env: "A" } } },
    { auth: { type: "none", valueFrom: { env: "A" } } },
    { auth: { type: "basic" } },
    { models: [{ upstreamModel: "a" }] },
    { discover: { intervalSeconds: 1 } },
    { retries: 11 },
    { headers: { a: 1 } },
  ];
  for (const part of refused) {
    it(`refuses ${JSON.stringify(part)}`, () => {
      assert.ok(!upstreamSpecSchema.safeParse({ baseUrl, ...part }).success);
    });
  }

  it("offers something", () => {
    const rules = (spec: object) => upstreamRules(upstreamSpecSchema.parse({ baseUrl, ...spec }));
    assert.deepEqual(rules({}), [{ path: ["models"], message: "an upstream needs models, discover, or both" }]);
    assert.deepEqual(rules({ models: [{ ref: "gpt" }] }), []);
    assert.deepEqual(rules({ discover: {} }), []);
  });
});
