import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { connect, type Socket } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { describe, it } from "node:test";
import { Listeners, type Sharing } from "../../../src/gateway/http/listeners.ts";
import { refuseBytes } from "../../../src/gateway/http/refused-bytes.ts";
import { freePort } from "../../support/free-port.ts";
import { listen } from "../../support/listen.ts";
import { until } from "../../support/until.ts";

const host = "127.0.0.1";

interface Served extends AsyncDisposable {
  readonly server: Server;
  readonly listeners: Listeners;
  readonly port: number;
}

/** A server as the gateway has one, on several sockets. */
async function serve(port: number, name = "served", sharing?: Sharing): Promise<Served> {
  const server = createServer((_, response) => response.end(name));
  const listeners = new Listeners(server, sharing);
  await listeners.listen({ host, port }, async (how) => {
    server.listen(how);
    await once(server, "listening");
  });
  const address = server.address();
  return {
    server,
    listeners,
    port: typeof address === "object" && address !== null ? address.port : 0,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await listeners.close();
    },
  };
}

async function asked(port: number): Promise<string> {
  return await (await fetch(`http://${host}:${port}/`, { headers: { connection: "close" } })).text();
}

describe("the listening sockets of a gateway", () => {
  it("are refused where another gateway listens already, with SO_REUSEPORT or without", async () => {
    const port = await freePort();
    await using first = await serve(port, "first");
    await assert.rejects(serve(port, "second"), { code: "EADDRINUSE", port });
    for (let count = 0; count < 10; count++) assert.equal(await asked(first.port), "first");
  });

  it("belong to one of two gateways that start in the same moment", async () => {
    for (let round = 0; round < 3; round++) {
      const port = await freePort();
      const outcomes = await Promise.allSettled([serve(port, "a"), serve(port, "b")]);
      const served = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
      for (const each of served) await each[Symbol.asyncDispose]();
      assert.equal(served.length, 1);
    }
  });

  it("open although a stranger connects to the socket that guards their start, and stays", async () => {
    const port = await freePort();
    const server = createServer();
    const listeners = new Listeners(server, undefined);
    let held: Socket | undefined;
    try {
      await listeners.listen({ host, port }, async (how) => {
        held = connect({ path: `\0berth-listens-${port}`, allowHalfOpen: true }).on("error", () => undefined);
        await once(held, "connect");
        server.listen(how);
        await once(server, "listening");
      });
    } finally {
      held?.destroy();
      await listeners.close();
    }
  });

  it("are all closed where one of them cannot be opened, and that error stops the start", async () => {
    const server = createServer();
    const port = await freePort();
    // Its own socket does not share the port: no other can be had.
    const opened = new Listeners(server, undefined).listen({ host, port }, async (how) => {
      server.listen({ ...how, reusePort: false });
      await once(server, "listening");
    });
    await assert.rejects(opened, { code: "EADDRINUSE" });
    await using _next = await serve(port);
    assert.equal(await asked(port), "served");
  });

  it("are free for the next gateway as soon as they are released, while open connections stay", async () => {
    const port = await freePort();
    await using first = await serve(port, "first");
    const kept: Socket[] = [];
    let taken = 0;
    first.server.on("connection", () => (taken += 1));
    for (let count = 0; count < 8; count++) {
      const socket = connect(port, host);
      await once(socket, "connect");
      kept.push(socket);
    }
    await until("they are taken", () => taken === kept.length);
    await first.listeners.release();
    await using _second = await serve(port, "second");
    assert.equal(await asked(port), "second");
    for (const socket of kept) {
      socket.write("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
      const [chunk] = await once(socket, "data");
      assert.match(String(chunk), /first$/);
    }
  });
});

/**
 * A server that refuses bytes, and a client that does not close the connection which it is given. The time for a header
 * begins with the connection: a short one may be over before a slow machine has read what is sent at once.
 */
async function refusing(
  stack: DisposableStack,
  headersTimeout: number,
  closeMs?: number,
): Promise<{ client: Socket; closed: () => Promise<unknown>; requests: unknown[] }> {
  const requests: unknown[] = [];
  const server = createServer({ headersTimeout, requestTimeout: 0, connectionsCheckingInterval: 10 });
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
  for (const [what, sent, answer, headersTimeout] of [
    ["a request that comes too slowly", "POST / HTTP/1.1\r\nhost: ", /^HTTP\/1\.1 408 /, 50],
    ["what is no HTTP", "hello\r\n\r\n", /^HTTP\/1\.1 400 /, 60_000],
    ["HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", /^HTTP\/1\.1 400 /, 60_000],
  ] satisfies [string, string, RegExp, number][])
    it(`is closed after ${what}, although its client does not close it`, async () => {
      using stack = new DisposableStack();
      const { client, closed } = await refusing(stack, headersTimeout, 50);
      client.write(sent);
      assert.match(await textOf(client), answer);
      await closed();
    });

  it("makes no request, although its client completes the header after the answer", async () => {
    using stack = new DisposableStack();
    const { client, closed, requests } = await refusing(stack, 50);
    client.write("POST /paid HTTP/1.1\r\nhost: a\r\ncontent-length: 0");
    assert.match(await textOf(client), /^HTTP\/1\.1 408 /);
    client.end("\r\n\r\n");
    await closed();
    assert.deepEqual(requests, []);
  });
});
