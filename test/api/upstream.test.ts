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
  it("takes each way to authenticate", () => {
    for (const auth of auths) assert.deepEqual(upstreamSpecSchema.parse({ baseUrl, auth }).auth, auth);
  });

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
    // Longer than a timer counts: it would not wait at all.
    { discover: { intervalSeconds: 2_592_000 } },
    { connectSeconds: 2_592_000 },
    { retries: 11 },
    { headers: { a: 1 } },
  ];
  for (const part of refused) {
    it(`refuses ${JSON.stringify(part)}`, () => {
      assert.ok(!upstreamSpecSchema.safeParse({ baseUrl, ...part }).success);
    });
  }

  it("requires models, discover, or both", () => {
    const rules = (spec: object) => upstreamRules(upstreamSpecSchema.parse({ baseUrl, ...spec }));
    assert.deepEqual(rules({}), [{ path: ["models"], message: "an upstream needs models, discover, or both" }]);
    assert.deepEqual(rules({ models: [{ ref: "gpt" }] }), []);
    assert.deepEqual(rules({ discover: {} }), []);
  });

  const problems: readonly (readonly [spec: object, path: string, message: string])[] = [
    [{ models: [{ ref: "a" }, { ref: "b" }, { ref: "a" }] }, "models.2.ref", "this ref is listed twice"],
    [{ baseUrl: "https://user:pass@api.example.com/v1" }, "baseUrl", "credentials belong in auth.valueFrom"],
    [{ baseUrl: "https://token@api.example.com/v1" }, "baseUrl", "credentials belong in auth.valueFrom"],
    [{ headers: { Authorization: "Bearer x" } }, "headers.Authorization", "a key belongs in auth.valueFrom"],
    [{ headers: { "X-Api-Key": "x" } }, "headers.X-Api-Key", "a key belongs in auth.valueFrom"],
    [{ headers: { Host: "x" } }, "headers.Host", "Berth sets this header itself"],
    [{ headers: { "Transfer-Encoding": "x" } }, "headers.Transfer-Encoding", "Berth sets this header itself"],
    [{ headers: { "a b": "x" } }, "headers.a b", "this is no name of a header"],
    [{ headers: { a: "x\r\nhost: y" } }, "headers.a", "a header cannot hold this value"],
    [
      { auth: { type: "header", header: "Content-Length", valueFrom: { env: "A" } } },
      "auth.header",
      "Berth sets this header itself",
    ],
    [
      { auth: { type: "header", header: "x y", valueFrom: { env: "A" } } },
      "auth.header",
      "this is no name of a header",
    ],
  ];
  for (const [spec, path, message] of problems) {
    it(`says of ${path}: ${message}`, () => {
      const found = upstreamRules(upstreamSpecSchema.parse({ baseUrl, discover: {}, ...spec }));
      assert.deepEqual(found, [{ path: path.split("."), message }]);
    });
  }

  it("accepts headers and keys where they belong", () => {
    const auth = { type: "header", header: "Authorization", valueFrom: { env: "A" } };
    const headers = { "OpenAI-Organization": "org", "anthropic-version": "2023-06-01", "User-Agent": "us" };
    assert.deepEqual(upstreamRules(upstreamSpecSchema.parse({ baseUrl, discover: {}, auth, headers })), []);
  });
});
