import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { TokenScope } from "../../../src/api/scopes.ts";
import { sayHello, scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";
import { startGateway, type TestGateway } from "../auth/gateway.ts";

type Headers = Readonly<Record<string, string>>;

interface Sent {
  readonly path?: string;
  readonly headers: Headers;
  readonly body?: string;
}

// Both routes must take it.
const stream = { model: "primary", messages: [{ role: "user", content: "hi" }], prompt: "hi", stream: true };
const body = JSON.stringify(stream);

/** A token of its own each time. */
async function holder(gateway: TestGateway, scope: TokenScope): Promise<Headers> {
  const { token } = await gateway.tokens.create({ label: scope, scope });
  return { authorization: `Bearer ${token}` };
}

/** How many calls reach the engine when the two streams wait for one cold slot. */
async function callsFor(pair: (gateway: TestGateway) => Promise<readonly [Sent, Sent]>): Promise<number> {
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  await using engine = await scriptedEngine(async (response, seen) => {
    await released;
    sayHello(response, seen);
  });
  await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1" }, { primary: {} });
  const answers = (await pair(gateway)).map(({ path = "/v1/chat/completions", headers, body: own = body }) =>
    gateway.post(path, own, { headers: { "content-type": "application/json", ...headers } }),
  );
  await until("both wait", async () => (await gateway.metric("berth_shared_stream_readers")) === 2);
  await gateway.publish("primary", { port: engine.port });
  release();
  for (const answer of answers) {
    const response = await answer;
    assert.equal(response.status, 200);
    assert.match(await response.text(), /\[DONE\]\n\n$/);
  }
  return engine.seen.length;
}

describe("two streams that wait for one cold slot", { concurrency: true }, () => {
  const proxied = { "x-forwarded-email": "ada@example.org" };
  const scopes: readonly (readonly [what: string, calls: number, holders: readonly [TokenScope, TokenScope]])[] = [
    ["two tokens that may do the same", 1, ["v1-only", "v1-only"]],
    ["tokens of which one may read too", 2, ["v1-only", "all"]],
    ["tokens of which one is an admin's", 2, ["all", "admin"]],
  ];
  for (const [what, calls, [first, second]] of scopes) {
    it(`are ${calls === 1 ? "one call" : "two calls"} to the engine for ${what}`, async () => {
      const pair = async (gateway: TestGateway) =>
        [{ headers: await holder(gateway, first) }, { headers: await holder(gateway, second) }] as const;
      assert.equal(await callsFor(pair), calls);
    });
  }

  it("are shared between a proxy's admin user and an admin's token, and not with a token of a narrower scope", async () => {
    assert.equal(
      await callsFor(async (gateway) => [{ headers: proxied }, { headers: await holder(gateway, "admin") }]),
      1,
    );
    assert.equal(
      await callsFor(async (gateway) => [{ headers: proxied }, { headers: await holder(gateway, "all") }]),
      2,
    );
  });

  const differing: readonly (readonly [what: string, calls: number, second: Omit<Sent, "headers">])[] = [
    ["a route that is only spelled otherwise", 1, { path: "/v1/chat/completions/?a=b" }],
    ["another route", 2, { path: "/v1/completions" }],
    ["a body that means the same in other bytes", 2, { body: `${body}\n` }],
  ];
  for (const [what, calls, second] of differing) {
    it(`are ${calls === 1 ? "one call" : "two calls"} for ${what}`, async () => {
      assert.equal(await callsFor(async () => [{ headers: proxied }, { headers: proxied, ...second }]), calls);
    });
  }
});
