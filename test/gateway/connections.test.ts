import assert from "node:assert/strict";
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
