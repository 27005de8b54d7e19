import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { upstreamSpecSchema } from "../../src/api/upstream.ts";
import { done, failed, listOf, told } from "./fixture.ts";

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
const check = { name: "acme", ok: true, milliseconds: 84, models: 12, problem: null };
const problem = "the provider answered 401 when asked for its models";
const answers = {
  "/api/upstreams": listOf(acme, { ...acme, name: "local", circuit: "closed", problem: null }),
  "/api/upstreams/acme/check": check,
  "/api/upstreams/local/check": { ...check, name: "local", ok: false, models: null, problem },
};

describe("berth upstream", () => {
  for (const [name, line, ended] of [
    [
      "lists providers with their problems",
      "list",
      done(
        "NAME   STATE                     MODELS  IN-FLIGHT  QUEUED  PROBLEM\n" +
          "acme   paused: it keeps failing  1       1          0       the environment variable ACME_KEY is not set\n" +
          "local  serving                   1       1          0       -\n",
      ),
    ],
    ["checks one provider", "check acme", done("acme: ok, 12 models listed in 84 ms\n")],
    [
      "checks each provider, and fails where one does not answer as it should",
      "check",
      failed("", `acme: ok, 12 models listed in 84 ms\nlocal: ${problem}\n`),
    ],
  ] as const)
    it(name, async () => assert.deepEqual((await told(answers, `upstream ${line}`)).ended, ended));

  it("shows where the key of a provider comes from, and what it serves", async () => {
    const { stdout } = await told(answers, "upstream show acme");
    assert.match(stdout, /^key: {12}variable ACME_KEY of the gateway$/m);
    assert.match(stdout, /^declared: {7}big \(big-2026\)$/m);
    assert.match(stdout, /^url: {12}https:\/\/api\.example\.com\/v1$/m);
  });

  it("names the provider that may be meant", async () => {
    const { code, stderr } = await told(answers, "upstream show acne");
    assert.equal(code, 1);
    assert.match(stderr, /there is no provider called acne; did you mean acme\?/);
  });
});
