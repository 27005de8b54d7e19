import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { it } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { serverBehind } from "../support/server-behind.ts";

it("logs a connection that the system refuses, and continues", async () => {
  await using gateway = await startGateway();
  const server = await serverBehind(`${gateway.url}/livez`);
  // As Node tells of an `accept` that fails for want of descriptors or memory.
  server.emit("error", Object.assign(new Error("accept ENFILE"), { code: "ENFILE", syscall: "accept" }));
  assert.match(gateway.log(), /a connection could not be accepted/);
  assert.ok((await fetch(`${gateway.url}/livez`)).ok);
});

it("ends a connection whose further request has a header without an end", async () => {
  await using gateway = await startGateway();
  const server = await serverBehind(`${gateway.url}/livez`);
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  socket.write("GET /livez HTTP/1.1\r\nhost: berth\r\n\r\n");
  await once(socket, "data");
  assert.ok(server.headersTimeout <= 10_000);
  server.headersTimeout = 100;
  socket.write("GET /livez HTTP/1.1\r\nhost:");
  // Node itself looks every 30 s.
  await once(socket.resume(), "close", { signal: AbortSignal.timeout(20_000) });
});
