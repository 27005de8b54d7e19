import assert from "node:assert/strict";
import { request } from "node:http";
import { test } from "node:test";
import { startEngine } from "./engine.ts";

const key = "the-key-of-this-start";
const asked = JSON.stringify({ messages: [{ role: "user", content: "hi" }], max_tokens: 1 });

interface Asked {
  readonly path?: string;
  readonly method?: string;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Sends exactly the given headers, also Host, as a browser or another program can. */
function statusOf(
  url: string,
  { path = "/v1/chat/completions", method = "POST", body, headers }: Asked,
): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const sent = request(new URL(path, url), { method, headers: { ...headers } }, (response) => {
    response.resume();
    response.once("end", () => resolve(response.statusCode ?? 0));
  });
  sent.once("error", reject);
  sent.end(method === "POST" ? (body ?? asked) : undefined);
  return promise;
}

test("the embedded engine answers clients with its key, and no web page", async (t) => {
  await using engine = await startEngine({}, { key });
  const json = { "content-type": "application/json" };
  const known = { ...json, authorization: `Bearer ${key}` };
  const { host } = new URL(engine.url);
  const rows: readonly [string, number, Asked][] = [
    ["the gateway", 200, { headers: known }],
    [
      "the gateway, with a character set",
      200,
      { headers: { ...known, "content-type": "application/json; charset=utf-8" } },
    ],
    ["localhost", 200, { headers: { ...known, host: `localhost:${new URL(engine.url).port}` } }],
    ["no key", 401, { headers: json }],
    ["another key", 401, { headers: { ...json, authorization: "Bearer another" } }],
    ["another scheme", 401, { headers: { ...json, authorization: `Basic ${key}` } }],
    ["text/plain, as a form sends it", 415, { headers: { ...known, "content-type": "text/plain" } }],
    ["no content type", 415, { headers: { authorization: `Bearer ${key}` } }],
    ["a name that was led here", 403, { headers: { ...known, host: "evil.example" } }],
    ["an Origin of another site", 403, { headers: { ...known, origin: "http://evil.example" } }],
    ["an Origin of another port", 403, { headers: { ...known, origin: "http://127.0.0.1:1" } }],
    ["its own Origin", 200, { headers: { ...known, origin: `http://${host}` } }],
    ["a page of another site", 403, { headers: { ...known, "sec-fetch-site": "cross-site" } }],
    ["health, which has no secret", 200, { method: "GET", path: "/health" }],
    ["health for a page", 403, { method: "GET", path: "/health", headers: { "sec-fetch-site": "cross-site" } }],
    ["the model list", 401, { method: "GET", path: "/v1/models" }],
  ];
  for (const [who, status, request] of rows) {
    await t.test(`${who}: ${status}`, async () => assert.equal(await statusOf(engine.url, request), status));
  }
});
