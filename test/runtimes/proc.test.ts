import assert from "node:assert/strict";
import { createServer, type Server } from "node:net";
import { describe, it } from "node:test";
import { listeningInodes, ownsSocket } from "../../src/runtimes/proc.ts";

async function listen(port = 0): Promise<{ server: Server; port: number }> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the system gave no port");
  return { server, port: address.port };
}

const closed = (server: Server): Promise<unknown> => new Promise((resolve) => server.close(resolve));

describe("listening sockets", () => {
  it("are known for as long as they are open, and no longer", async () => {
    const { server, port } = await listen();
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
    const { server, port } = await listen();
    const first = listeningInodes(port);
    ownsSocket(process.pid, first);
    await closed(server);
    const again = await listen(port);
    const second = listeningInodes(port);
    assert.equal(second.size, 1);
    assert.notDeepEqual(second, first);
    assert.equal(ownsSocket(process.pid, second), true);
    await closed(again.server);
  });

  it("belong to nobody else", async () => {
    const { server, port } = await listen();
    const inodes = listeningInodes(port);
    ownsSocket(process.pid, inodes);
    assert.equal(ownsSocket(1, inodes), false);
    await closed(server);
  });
});
