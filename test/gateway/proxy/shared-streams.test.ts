import assert from "node:assert/strict";
import { it } from "node:test";
import type { TokenScope } from "../../../src/api/scopes.ts";
import { scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";
import { startGateway, type TestGateway } from "../auth/gateway.ts";

type Headers = Readonly<Record<string, string>>;

interface Sent {
  readonly path?: string;
  readonly headers: Headers;
  readonly body?: string;
}

// All routes must take it.
const chat = { model: "primary", messages: [{ role: "user", content: "hi" }], max_tokens: 9 };
const stream = { ...chat, input: "hi", stream: true };
const body = JSON.stringify(stream);

/** A token of its own each time. */
async function holder(gateway: TestGateway, scope: TokenScope): Promise<Headers> {
  const { token } = await gateway.tokens.create({ label: scope, scope });
  return { authorization: `Bearer ${token}` };
}

type Pair = (gateway: TestGateway) => Promise<readonly [Sent, Sent]>;

it("two streams that wait for one cold slot are one call where their bytes, route and scope are the same", async () => {
  await using engine = await scriptedEngine();
  await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1" }, { primary: {} });
  const proxied = { "x-forwarded-email": "ada@example.org" };
  const scopes =
    (first: TokenScope, second: TokenScope, path = "/v1/chat/completions"): Pair =>
    async () => [
      { path, headers: await holder(gateway, first) },
      { path, headers: await holder(gateway, second) },
    ];
  const user =
    (second: TokenScope): Pair =>
    async () => [{ headers: proxied }, { headers: await holder(gateway, second) }];
  const otherwise =
    (more: Omit<Sent, "headers">): Pair =>
    async () => [{ headers: proxied }, { headers: proxied, ...more }];
  const rows: readonly (readonly [what: string, calls: number, pair: Pair])[] = [
    ["two tokens that may do the same", 1, scopes("v1-only", "v1-only")],
    ["two tokens, in Messages that are made of a chat", 1, scopes("all", "all", "/v1/messages")],
    ["two tokens of Responses, whose items belong to one of them", 2, scopes("all", "all", "/v1/responses")],
    ["tokens of which one may read too", 2, scopes("v1-only", "all")],
    ["tokens of which one is an admin's", 2, scopes("all", "admin")],
    ["a proxy's admin user and an admin's token", 1, user("admin")],
    ["a proxy's admin user and a token of a narrower scope", 2, user("all")],
    ["a route that is only spelled otherwise", 1, otherwise({ path: "/v1/chat/completions/?a=b" })],
    ["another route", 2, otherwise({ path: "/v1/responses" })],
    ["a body that means the same in other bytes", 2, otherwise({ body: `${body}\n` })],
  ];
  for (const [what, calls, pair] of rows) {
    await gateway.publish("primary", {});
    engine.seen.splice(0);
    const answers = (await pair(gateway)).map(({ path = "/v1/chat/completions", headers, body: own = body }) =>
      gateway.post(path, own, { headers: { "content-type": "application/json", ...headers } }),
    );
    await until("both wait", async () => (await gateway.metric("berth_shared_stream_readers")) === 2);
    await gateway.publish("primary", { port: engine.port });
    for (const answer of answers) {
      const response = await answer;
      assert.equal(response.status, 200, what);
      assert.match(await response.text(), /(\[DONE\]|"message_stop"\}|event: response\.completed\n.*)\n\n$/);
    }
    assert.equal(engine.seen.length, calls, what);
  }
});
