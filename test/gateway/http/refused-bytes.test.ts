import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, type Socket } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { describe, it } from "node:test";
import { refuseBytes } from "../../../src/gateway/http/refused-bytes.ts";
import { listen } from "../../support/listen.ts";

/** A server that refuses bytes, and a client that does not close the connection which it is given. */
async function refusing(
  stack: DisposableStack,
  closeMs?: number,
): Promise<{ client: Socket; closed: () => Promise<unknown>; requests: unknown[] }> {
  const requests: unknown[] = [];
  const server = createServer({ headersTimeout: 50, requestTimeout: 0, connectionsCheckingInterval: 10 });
  server.on("request", (request) => void requests.push(request.url));
  server.on("clientError", (error, socket) => refuseBytes(error, socket, closeMs));
  const accepted = once(server, "connection");
  const port = await listen(server);
  stack.defer(() => void server.close());
  stack.defer(() => server.closeAllConnections());
  const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  stack.defer(() => void client.destroy());
  const [socket]: Socket[] = await accepted;
  assert.ok(socket !== undefined);
  const end = once(socket, "close", { signal: AbortSignal.timeout(60_000) });
  return { client, closed: () => end, requests };
}

describe("a connection whose bytes are refused", () => {
  for (const [what, sent, answer] of [
    ["a request that comes too slowly", "POST / HTTP/1.1\r\nhost: ", /^HTTP\/1\.1 408 /],
    ["what is no HTTP", "hello\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", /send HTTP\/1\.1/],
  ] satisfies [string, string, RegExp][])
    it(`is closed after ${what}, although its client does not close it`, async () => {
      using stack = new DisposableStack();
      const { client, closed } = await refusing(stack, 50);
      client.write(sent);
      assert.match(await textOf(client), answer);
      await closed();
    });

  it("makes no request, although its client completes the header after the answer", async () => {
    using stack = new DisposableStack();
    const { client, closed, requests } = await refusing(stack);
    client.write("POST /paid HTTP/1.1\r\nhost: a\r\ncontent-length: 0");
    assert.match(await textOf(client), /^HTTP\/1\.1 408 /);
    client.end("\r\n\r\n");
    await closed();
    assert.deepEqual(requests, []);
  });
});
