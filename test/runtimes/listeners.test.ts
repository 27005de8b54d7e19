import assert from "node:assert/strict";
import { createServer, type Server } from "node:net";
import { describe, it } from "node:test";
import { listenersOn } from "../../src/runtimes/listeners.ts";
import { ownsSocket } from "../../src/runtimes/proc.ts";
import { freePort } from "../support/free-port.ts";

async function listening(port: number, host: string): Promise<Server> {
  const server = createServer();
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(port, host, resolve);
  await promise;
  return server;
}

async function close(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  await promise;
}

describe("listenersOn", () => {
  for (const host of ["127.0.0.1", "0.0.0.0"]) {
    it(`finds who listens on ${host}, for as long as it does`, async () => {
      const port = await freePort();
      assert.deepEqual(await listenersOn(port), new Set());
      const server = await listening(port, host);
      const found = await listenersOn(port);
      assert.equal(found.size, 1);
      assert.ok(ownsSocket(process.pid, found));
      await close(server);
      assert.deepEqual(await listenersOn(port), new Set());
    });
  }
});
