import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { SlotProcess } from "../../../src/api/process-ref.ts";
import { openPortLeases, PortLeases } from "../../../src/operator/ports/leases.ts";
import type { HostPorts } from "../../../src/runtimes/host-ports.ts";
import { hostPorts } from "../../../src/runtimes/process/host-ports.ts";
import { freePorts } from "../../support/ports.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { ProcessSite } from "../../runtimes/process/site.ts";

const main = (slot: string, ordinal = 0): SlotProcess => ({ slot, role: "main", ordinal });
const rerank = (slot: string): SlotProcess => ({ slot, role: "rerank", ordinal: 0 });

/** The automatic port of the process. */
function lease(leases: PortLeases, process: SlotProcess, avoid?: ReadonlySet<number>): number | undefined {
  const port = leases.find(process, avoid);
  return port === undefined ? undefined : leases.reserve(process, port);
}

describe("leases of ports", () => {
  /** Leases of 1 to `last`, on a host where strangers listen on some ports. */
  function leasesTo(last: number, strangers = new Set<number>()): PortLeases {
    const host: HostPorts = {
      listening: () => strangers,
      isTakenByStranger: (port) => strangers.has(port),
      recorded: async () => [],
    };
    return new PortLeases({ first: 1, last }, host);
  }

  it("each role gets a port of its own, the same at every call, until none is left", () => {
    const leases = leasesTo(3);
    const all = [main("a"), rerank("a"), main("a"), main("b"), main("c")];
    assert.deepEqual(
      all.map((each) => lease(leases, each)),
      [1, 2, 1, 3, undefined],
    );
    leases.release("a", { role: "rerank", ordinal: 0 });
    assert.equal(lease(leases, main("c")), 2);
    leases.release("a");
    assert.deepEqual([lease(leases, main("d")), lease(leases, main("c"))], [1, 2]);
  });

  it("to find a port leases none", () => {
    const leases = leasesTo(2);
    assert.deepEqual([leases.find(main("a")), leases.find(main("b")), leases.holder(1)], [1, 1, undefined]);
    leases.reserve(main("a"), 1);
    assert.deepEqual([leases.find(main("a")), leases.find(main("b"))], [1, 2]);
  });

  it("each replica has a port, and gives back no other; nor does a slot whose name has the same beginning", () => {
    const leases = leasesTo(3);
    for (const each of [main("a"), main("a", 1), main("a-2")]) lease(leases, each);
    const holders = () => [1, 2, 3].map((port) => leases.holder(port));
    assert.deepEqual(holders(), ["a/main", "a/main-1", "a-2/main"]);
    leases.release("a", { role: "main", ordinal: 1 });
    assert.deepEqual(holders(), ["a/main", undefined, "a-2/main"]);
    leases.release("a");
    assert.deepEqual(holders(), [undefined, undefined, "a-2/main"]);
  });

  it("a fixed port is given unless another holds it, and moves its holder there", () => {
    const leases = leasesTo(2);
    lease(leases, main("a"));
    assert.equal(leases.reserve(main("b"), 1), undefined);
    assert.equal(leases.reserve(main("a"), 2), 2);
    assert.equal(leases.reserve(main("b"), 1), 1);
    assert.equal(lease(leases, main("c")), undefined);
  });

  it("an automatic port leaves out the given ports, and those on which strangers listen", () => {
    const strangers = new Set([1]);
    const leases = leasesTo(3, strangers);
    assert.equal(lease(leases, main("a"), new Set([2])), 3);
    assert.equal(lease(leases, main("b")), 2);
    strangers.add(2).delete(1);
    assert.equal(lease(leases, main("b")), 1, "a stranger makes the holder move");
  });
});

describe("leases of ports on a host", () => {
  for (const host of ["127.0.0.1", "0.0.0.0", "::"]) {
    it(`skip a port on which a stranger listens on ${host}, whoever holds it`, async () => {
      await using state = await tempDir();
      const { first, last } = await freePorts(2);
      const leases = await openPortLeases(hostPorts(join(state.path, "processes")), { first, last });
      assert.equal(lease(leases, main("a")), first);
      const server = createServer().listen(first, host);
      await once(server, "listening");
      assert.deepEqual([leases.find(main("b")), lease(leases, main("a"))], [last, last]);
      server.close();
      await once(server, "close");
    });
  }

  it("stay with engines across a restart, running or not, and in another range with what runs", async () => {
    await using site = new ProcessSite();
    const { first, last } = await freePorts(3);
    const before = await site.open();
    await before.ensure({ ...site.workload(last), slot: "running" });
    await before.ensure({ ...site.workload(first + 1, ["--exit-code", "1"]), slot: "crashed" });
    await until("one listens", async () => (await before.observe("running"))[0]?.isListening);
    await until("one has crashed", async () => (await before.observe("crashed"))[0]?.phase === "exited");
    await before[Symbol.asyncDispose]();
    const host = hostPorts(join(site.stateDir, "processes"));
    const names = ["running", "crashed", "new", "too-late"];
    const leases = await openPortLeases(host, { first, last });
    assert.deepEqual(
      names.map((name) => lease(leases, main(name))),
      [last, first + 1, first, undefined],
    );
    const narrow = await openPortLeases(host, { first, last: first });
    assert.deepEqual(
      names.map((name) => lease(narrow, main(name))),
      [last, first, undefined, undefined],
    );
  });
});
