import assert from "node:assert/strict";
import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import { describe, it } from "node:test";
import { ApiError } from "../../src/api/errors.ts";
import { readRequestBody } from "../../src/gateway/body.ts";
import { listen } from "../support/listen.ts";

/** Reads one body on a server of its own while `send` plays the client. */
async function read(
  send: (client: ReturnType<typeof httpRequest>) => void,
  limits: { limitBytes?: number; idleMs?: number } = {},
): Promise<Buffer> {
  const { limitBytes = 1000, idleMs } = limits;
  const server = createServer();
  const port = await listen(server);
  const asked = new Promise<IncomingMessage>((resolve) => server.once("request", resolve));
  const client = httpRequest({ host: "127.0.0.1", port, method: "POST" });
  client.on("error", () => undefined);
  send(client);
  try {
    return await readRequestBody(await asked, limitBytes, idleMs);
  } finally {
    client.destroy();
    server.closeAllConnections();
    server.close();
  }
}

const refusal = (code: string, status: number) => (error: unknown) =>
  error instanceof ApiError && error.code === code && error.status === status;

describe("readRequestBody", () => {
  it("gives the whole body, in however many pieces it comes", async () => {
    const body = await read((client) => {
      client.write("one ");
      setImmediate(() => client.end("two"));
    });
    assert.equal(body.toString(), "one two");
  });

  it("refuses a body that grows beyond the limit", async () => {
    const body = read((client) => void client.end("x".repeat(20)), { limitBytes: 10 });
    await assert.rejects(body, refusal("dispatch.payload_too_large", 413));
  });

  it("gives up on a sender that falls silent", async () => {
    const body = read((client) => void client.write("half"), { idleMs: 20 });
    await assert.rejects(body, refusal("dispatch.invalid_request", 408));
  });

  it("says so when the sender leaves", async () => {
    const body = read((client) => {
      client.write("half", () => setImmediate(() => client.destroy()));
    });
    await assert.rejects(body, refusal("dispatch.invalid_request", 400));
  });
});
