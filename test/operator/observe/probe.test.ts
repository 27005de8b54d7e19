import assert from "node:assert/strict";
import { createServer } from "node:http";
import { describe, it } from "node:test";
import { httpProbe } from "../../../src/operator/observe/probe.ts";
import { listen } from "../../support/listen.ts";

describe("asking an engine", () => {
  it("fails without throwing where a manifest's path cannot be sent", async () => {
    const result = await httpProbe({ host: "127.0.0.1", port: 1, path: "/health of mine", timeoutMs: 5000 });
    assert.equal(result.outcome, "failed");
    assert.match("message" in result ? result.message : "", /^\/health of mine: /);
  });

  it("names no query in its messages, which people see: it may hold a key", async () => {
    const server = createServer((_request, response) => response.writeHead(401).end("who are you?"));
    await using _server = server;
    const target = { host: "127.0.0.1", port: await listen(server), timeoutMs: 5000 };
    const refused = await httpProbe({ ...target, path: "/health?key=s3cret" });
    assert.deepEqual(refused, { outcome: "failed", message: "/health answered 401: who are you?", status: 401 });
    const failed = await httpProbe({ ...target, path: "/health?key=s3cret of mine" });
    assert.deepEqual(failed, { outcome: "failed", message: "/health: a request cannot have this path" });
  });

  it("names the engine's own sentence, and knows from it whether another try would be refused too", async () => {
    const jinja =
      "While executing CallExpression at line 1\n ↓\nError: Jinja Exception: Roles must alternate a/b/a/b\n";
    const rows: readonly (readonly [status: number, body: unknown, isRefused: true | undefined, message: string])[] = [
      [400, { error: { code: 400, message: "the template refuses these messages" } }, true, "the template refuses"],
      [500, { error: { code: 500, type: "server_error", message: jinja } }, true, "Roles must alternate a/b/a/b"],
      [422, { detail: [{ loc: ["body", "input"], msg: "Field required" }] }, true, "input: Field required"],
      [500, { error: { code: 500, type: "server_error", message: "out of memory" } }, undefined, "out of memory"],
      [429, { error: "busy" }, undefined, "busy"],
      [503, { error: { message: "Loading model" } }, undefined, "Loading model"],
    ];
    let status = 200;
    let answer: unknown;
    const server = createServer((request, response) => {
      request.resume();
      response.writeHead(status).end(JSON.stringify(answer));
    });
    await using _server = server;
    const target = { host: "127.0.0.1", port: await listen(server), timeoutMs: 5000, path: "/v1/x" };
    for (const [code, body, isRefused, message] of rows) {
      [status, answer] = [code, body];
      const result = await httpProbe({ ...target, body: {} });
      assert.ok(
        result.outcome !== "healthy" && result.message.startsWith(`/v1/x answered ${code}: ${message}`),
        message,
      );
      assert.equal("isRefused" in result ? result.isRefused : undefined, isRefused, message);
    }
  });
});
