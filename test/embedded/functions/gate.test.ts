import assert from "node:assert/strict";
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { describe, it } from "node:test";
import { Gate } from "../../../engines/src/gate.ts";
import { Refusal } from "../../../engines/src/refusal.ts";

// A function of the embedded engine, without a model.

describe("the embedded engine answers clients with its key, and no web page", () => {
  const gate = new Gate("old-key,the-key");
  const host = "127.0.0.1:8081";
  const json = { host, "content-type": "application/json" };
  const known = { ...json, authorization: "Bearer the-key" };

  function statusOf(headers: Readonly<Record<string, string>>, path?: string): number {
    const request = new IncomingMessage(new Socket());
    request.method = path === undefined ? "POST" : "GET";
    request.headers = { ...headers };
    try {
      gate.check(request, path === "/health");
      return 200;
    } catch (error) {
      assert.ok(error instanceof Refusal);
      return error.status;
    }
  }

  const rows: readonly [string, number, Readonly<Record<string, string>>, path?: string][] = [
    ["the gateway", 200, known],
    ["the gateway, with another key of the list", 200, { ...known, authorization: "Bearer old-key" }],
    ["the gateway, with a character set", 200, { ...known, "content-type": "application/json; charset=utf-8" }],
    ["localhost", 200, { ...known, host: "localhost:8081" }],
    ["an IPv6 address", 200, { ...known, host: "[::1]:8081" }],
    ["no key", 401, json],
    ["another key", 401, { ...json, authorization: "Bearer another" }],
    ["another scheme", 401, { ...json, authorization: "Basic the-key" }],
    ["text/plain, as a form sends it", 415, { ...known, "content-type": "text/plain" }],
    ["no content type", 415, { host, authorization: "Bearer the-key" }],
    ["a name that was led here", 403, { ...known, host: "evil.example" }],
    ["an Origin of another site", 403, { ...known, origin: "http://evil.example" }],
    ["an Origin of another port", 403, { ...known, origin: "http://127.0.0.1:1" }],
    ["its own Origin", 200, { ...known, origin: `http://${host}` }],
    ["a page of another site", 403, { ...known, "sec-fetch-site": "cross-site" }],
    ["health, which has no secret", 200, { host }, "/health"],
    ["health for a page", 403, { host, "sec-fetch-site": "cross-site" }, "/health"],
    ["the model list", 401, { host }, "/v1/models"],
  ];
  for (const [who, status, headers, path] of rows)
    it(`${who}: ${status}`, () => assert.equal(statusOf(headers, path), status));
});
