import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { describe, it } from "node:test";
import { listenersOn } from "../../../src/runtimes/process/listeners.ts";
import { ownsSocket } from "../../../src/runtimes/process/proc.ts";
import { freePort } from "../../support/free-port.ts";
import { listen } from "../../support/listen.ts";

describe("listenersOn", () => {
  for (const host of ["127.0.0.1", "0.0.0.0"]) {
    it(`finds the listener on ${host}, for as long as it listens`, async () => {
      const port = await freePort();
      assert.deepEqual(await listenersOn(port), new Set());
      const server = createServer();
      await listen(server, port, host);
      const found = await listenersOn(port);
      assert.equal(found.size, 1);
      assert.ok(ownsSocket(process.pid, found));
      await once(server.close(), "close");
      assert.deepEqual(await listenersOn(port), new Set());
    });
  }
});
