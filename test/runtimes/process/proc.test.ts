import assert from "node:assert/strict";
import { createServer, type Server } from "node:net";
import { describe, it } from "node:test";
import { listeningInodes, ownsSocket } from "../../../src/runtimes/process/proc.ts";
import { freePort } from "../../support/free-port.ts";
import { listen } from "../../support/listen.ts";
import { withoutDescriptors } from "../../support/out-of-files.ts";

async function listener(port?: number): Promise<{ server: Server; port: number }> {
  const server = createServer();
  return { server, port: await listen(server, port ?? (await freePort())) };
}

const closed = (server: Server): Promise<unknown> => new Promise((resolve) => server.close(resolve));

describe("listening sockets", () => {
  it("are known for as long as they are open, and no longer", async () => {
    const { server, port } = await listener();
    const first = listeningInodes(port);
    assert.equal(first.size, 1);
    assert.equal(ownsSocket(process.pid, first), true);
    // Now that its owner is known, both are answered from memory.
    assert.deepEqual(listeningInodes(port), first);
    assert.equal(ownsSocket(process.pid, first), true);
    await closed(server);
    assert.deepEqual(listeningInodes(port), new Set());
    assert.equal(ownsSocket(process.pid, first), false);
  });

  it("that take the place of another on the same port are others", async () => {
    const { server, port } = await listener();
    const first = listeningInodes(port);
    ownsSocket(process.pid, first);
    await closed(server);
    const again = await listener(port);
    const second = listeningInodes(port);
    assert.equal(second.size, 1);
    assert.notDeepEqual(second, first);
    assert.equal(ownsSocket(process.pid, second), true);
    await closed(again.server);
  });

  it("belong to no other process", async () => {
    const { server, port } = await listener();
    const inodes = listeningInodes(port);
    ownsSocket(process.pid, inodes);
    assert.equal(ownsSocket(1, inodes), false);
    await closed(server);
  });
});

describe("a query about processes without a file descriptor left", () => {
  const module = new URL("../../../src/runtimes/process/proc.ts", import.meta.url);
  for (const look of [
    `environmentOf(${process.pid})`,
    `ownsSocket(${process.pid}, new Set(["1"]))`,
    "listeningInodes(1)",
    `listeningPorts("/proc/net")`,
  ]) {
    it(`fails, and does not report that there is nothing: ${look.slice(0, look.indexOf("("))}`, async () => {
      assert.equal(await withoutDescriptors(module, look), "EMFILE");
    });
  }
});
