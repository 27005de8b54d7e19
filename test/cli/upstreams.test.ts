import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { upstreamSpecSchema } from "../../src/api/upstream.ts";
import { apiDouble } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";

const acme = {
  name: "acme",
  spec: upstreamSpecSchema.parse({
    baseUrl: "https://api.example.com/v1",
    auth: { type: "bearer", valueFrom: { env: "ACME_KEY" } },
    models: [{ ref: "big", upstreamModel: "big-2026" }],
  }),
  circuit: "open",
  in_flight: 1,
  queued: 0,
  models: 1,
  problem: "the environment variable ACME_KEY is not set",
};
const upstreams = { object: "list", data: [acme, { ...acme, name: "local", circuit: "closed", problem: null }] };
const check = { name: "acme", ok: true, milliseconds: 84, models: 12, problem: null };

describe("berth upstream", () => {
  it("lists providers with their problems", async () => {
    await using api = await apiDouble({ "/api/upstreams": upstreams });
    const { stdout } = await runBerth(["upstream", "list"], { SVC_URL: api.url });
    assert.equal(
      stdout,
      "NAME   STATE                     MODELS  IN-FLIGHT  QUEUED  PROBLEM\n" +
        "acme   paused: it keeps failing  1       1          0       the environment variable ACME_KEY is not set\n" +
        "local  serving                   1       1          0       -\n",
    );
  });

  it("shows where the key of a provider comes from, and what it serves", async () => {
    await using api = await apiDouble({ "/api/upstreams": upstreams });
    const { stdout } = await runBerth(["upstream", "show", "acme"], { SVC_URL: api.url });
    assert.match(stdout, /^key: {12}variable ACME_KEY of the gateway$/m);
    assert.match(stdout, /^declared: {7}big \(big-2026\)$/m);
    assert.match(stdout, /^url: {12}https:\/\/api\.example\.com\/v1$/m);
  });

  it("names the provider that may be meant", async () => {
    await using api = await apiDouble({ "/api/upstreams": upstreams });
    const { code, stderr } = await runBerth(["upstream", "show", "acne"], { SVC_URL: api.url });
    assert.equal(code, 1);
    assert.match(stderr, /there is no provider called acne; did you mean acme\?/);
  });

  it("checks each provider, and fails where one does not answer as it should", async () => {
    const problem = "the provider answered 401 when asked for its models";
    await using api = await apiDouble({
      "/api/upstreams": upstreams,
      "/api/upstreams/acme/check": check,
      "/api/upstreams/local/check": { ...check, name: "local", ok: false, models: null, problem },
    });
    const env = { SVC_URL: api.url };
    assert.deepEqual(await runBerth(["upstream", "check", "acme"], env), {
      code: 0,
      stdout: "acme: ok, 12 models listed in 84 ms\n",
      stderr: "",
    });
    assert.deepEqual(await runBerth(["upstream", "check"], env), {
      code: 1,
      stdout: `acme: ok, 12 models listed in 84 ms\nlocal: ${problem}\n`,
      stderr: "",
    });
  });

  it("is the command that a provider's failure suggests, not the log of a slot", async () => {
    const error = {
      code: "dispatch.upstream_unavailable",
      message: "upstream acme cannot be reached (ECONNREFUSED)",
      type: "server_error",
      details: { upstream: "acme" },
    };
    await using api = await apiDouble({
      "/v1/chat/completions": (response) => {
        response.writeHead(502, { "content-type": "application/json" });
        response.end(JSON.stringify({ error }));
      },
    });
    const { stderr } = await runBerth(["chat", "big", "hi"], { SVC_URL: api.url });
    assert.equal(stderr, `${error.code}: ${error.message}\nsee \`berth upstream check acme\`, or try again later\n`);
  });
});
