import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { connect, type Socket } from "node:net";
import { describe, it } from "node:test";
import { openListeners, type Listeners } from "../../../src/gateway/http/listeners.ts";
import { freePort } from "../../support/free-port.ts";
import { until } from "../../support/until.ts";

const host = "127.0.0.1";

interface Served extends AsyncDisposable {
  readonly server: Server;
  readonly listeners: Listeners;
  readonly port: number;
}

/** A server as the gateway has one, on several sockets. */
async function serve(port: number, name = "served"): Promise<Served> {
  const server = createServer((_, response) => response.end(name));
  const listeners = await openListeners(server, { host, port }, async (how) => {
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

  it("are all closed where one of them cannot be opened, and that error stops the start", async () => {
    const server = createServer();
    const port = await freePort();
    // Its own socket does not share the port: no other can be had.
    const opened = openListeners(server, { host, port }, async (how) => {
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
    void first.listeners.close();
    await using _second = await serve(port, "second");
    assert.equal(await asked(port), "second");
    for (const socket of kept) {
      socket.write("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
      const [chunk] = await once(socket, "data");
      assert.match(String(chunk), /first$/);
    }
  });
});
