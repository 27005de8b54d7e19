import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, type Socket } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { describe, it } from "node:test";
import { refuseBytes } from "../../../src/gateway/http/refused-bytes.ts";
import { listen } from "../../support/listen.ts";

describe("a connection whose bytes are refused", () => {
  for (const [what, sent, answer] of [
    ["a request that comes too slowly", "POST / HTTP/1.1\r\nhost: ", /^HTTP\/1\.1 408 /],
    ["what is no HTTP", "hello\r\n\r\n", /^HTTP\/1\.1 400 /],
    ["HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", /send HTTP\/1\.1/],
  ] satisfies [string, string, RegExp][]) {
    it(`is closed after ${what}, although its client does not close it`, async () => {
      const server = createServer({ headersTimeout: 50, requestTimeout: 0, connectionsCheckingInterval: 10 });
      const accepted = once(server, "connection");
      server.on("clientError", (error, socket) => refuseBytes(error, socket, 50));
      const port = await listen(server);
      const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
      client.write(sent);
      const [socket]: Socket[] = await accepted;
      assert.ok(socket !== undefined);
      const closed = once(socket, "close", { signal: AbortSignal.timeout(10_000) });
      assert.match(await textOf(client), answer);
      await closed;
      client.destroy();
      server.close();
    });
  }
});
