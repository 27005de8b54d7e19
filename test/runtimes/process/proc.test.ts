import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { describe, it } from "node:test";
import { listenersOn } from "../../../src/runtimes/process/listeners.ts";
import { listeningInodes, ownsSocket } from "../../../src/runtimes/process/proc.ts";
import { listen } from "../../support/listen.ts";
import { runScarce } from "../../support/out-of-files.ts";

const looks = { listeningInodes: async (port: number) => listeningInodes(port), listenersOn };

describe("listening sockets", () => {
  for (const [name, look] of Object.entries(looks))
    for (const host of ["127.0.0.1", "0.0.0.0"]) {
      it(`on ${host} are known as long as they are open, to their process alone: ${name}`, async () => {
        const server = createServer();
        const port = await listen(server, 0, host);
        const first = await look(port);
        assert.equal(first.size, 1);
        assert.deepEqual([ownsSocket(process.pid, first), ownsSocket(1, first)], [true, false]);
        // Now that its owner is known, both are answered from memory.
        assert.deepEqual(await look(port), first);
        assert.deepEqual([ownsSocket(process.pid, first), ownsSocket(1, first)], [true, false]);
        await once(server.close(), "close");
        assert.deepEqual(await look(port), new Set());
        assert.equal(ownsSocket(process.pid, first), false);
        const again = createServer();
        await listen(again, port, host);
        const second = await look(port);
        assert.equal(second.size, 1);
        assert.notDeepEqual(second, first);
        assert.equal(ownsSocket(process.pid, second), true);
        await once(again.close(), "close");
      });
    }
});

it("a query about processes without a file descriptor left fails, and does not report that there is nothing", async () => {
  const module = new URL("../../../src/runtimes/process/proc.ts", import.meta.url);
  const said = await runScarce(`
    const { environmentOf, ownsSocket, listeningInodes, listeningPorts } = await import(${JSON.stringify(module.href)});
    const looks = [
      () => environmentOf(process.pid),
      () => ownsSocket(process.pid, new Set(["1"])),
      () => listeningInodes(1),
      () => listeningPorts("/proc/net"),
    ];
    const open = exhaust();
    const codes = looks.map((look) => {
      try { return look(); } catch ({ code }) { return code; }
    });
    giveBack(open);
    console.log(JSON.stringify(codes));`);
  assert.deepEqual(JSON.parse(said), ["EMFILE", "EMFILE", "EMFILE", "EMFILE"]);
});
