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
});
