import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { SlotProcess } from "../../../src/api/process-ref.ts";
import { openPortLeases, type PortLeases } from "../../../src/operator/ports/leases.ts";
import { hostPorts } from "../../../src/runtimes/process/host-ports.ts";
import { freePorts } from "../../support/ports.ts";
import { until } from "../../support/until.ts";
import { ProcessSite } from "../../runtimes/process/site.ts";

const main = (slot: string, ordinal = 0): SlotProcess => ({ slot, role: "main", ordinal });
const rerank = (slot: string): SlotProcess => ({ slot, role: "rerank", ordinal: 0 });

/** The automatic port of the process. */
function lease(leases: PortLeases, process: SlotProcess, avoid?: ReadonlySet<number>): number | undefined {
  const port = leases.find(process, avoid);
  return port === undefined ? undefined : leases.reserve(process, port);
}

class State implements Disposable {
  readonly dir = mkdtempSync(join(tmpdir(), "berth-ports-"));

  [Symbol.dispose](): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

async function listen(port: number, host = "127.0.0.1"): Promise<Server | undefined> {
  const server = createServer();
  const isListening = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(port, host, () => resolve(true));
  });
  return isListening ? server : undefined;
}

async function close(server: Server | undefined): Promise<void> {
  await new Promise((resolve) => (server === undefined ? resolve(undefined) : server.close(resolve)));
}

test("each role gets a port of its own, the same at every call, until none is left", async () => {
  using state = new State();
  const { first, last } = await freePorts(3);
  const leases = await openPortLeases(hostPorts(join(state.dir, "processes")), { first, last });
  assert.equal(lease(leases, main("a")), first);
  assert.equal(lease(leases, rerank("a")), first + 1);
  assert.equal(lease(leases, main("a")), first);
  assert.equal(lease(leases, main("b")), last);
  assert.equal(lease(leases, main("c")), undefined);
  leases.release("a", { role: "rerank", ordinal: 0 });
  assert.equal(lease(leases, main("c")), first + 1);
  leases.release("a");
  assert.equal(lease(leases, main("d")), first);
  assert.equal(lease(leases, main("c")), first + 1);
});

test("to find a port leases none", async () => {
  using state = new State();
  const { first, last } = await freePorts(2);
  const leases = await openPortLeases(hostPorts(join(state.dir, "processes")), { first, last });
  assert.deepEqual([leases.find(main("a")), leases.find(main("b")), leases.holder(first)], [first, first, undefined]);
  leases.reserve(main("a"), first);
  assert.deepEqual([leases.find(main("a")), leases.find(main("b"))], [first, last]);
});

test("releasing a slot keeps the ports of a slot whose name has the same beginning", async () => {
  using state = new State();
  const { first, last } = await freePorts(2);
  const leases = await openPortLeases(hostPorts(join(state.dir, "processes")), { first, last });
  lease(leases, main("a"));
  assert.equal(lease(leases, main("a-2")), last);
  leases.release("a");
  assert.equal(lease(leases, main("a-2")), last);
});

test("a fixed port is given unless another holds it, and moves its holder there", async () => {
  using state = new State();
  const { first, last } = await freePorts(2);
  const leases = await openPortLeases(hostPorts(join(state.dir, "processes")), { first, last });
  assert.equal(lease(leases, main("a")), first);
  assert.equal(leases.reserve(main("b"), first), undefined);
  assert.equal(leases.reserve(main("a"), last), last);
  assert.equal(leases.reserve(main("b"), first), first);
  assert.equal(lease(leases, main("c")), undefined);
});

for (const host of ["127.0.0.1", "0.0.0.0", "::"]) {
  test(`an automatic port skips those on which a stranger listens on ${host}`, async () => {
    using state = new State();
    const { first, last } = await freePorts(2);
    const leases = await openPortLeases(hostPorts(join(state.dir, "processes")), { first, last });
    const server = await listen(first, host);
    assert.equal(lease(leases, main("a")), last);
    await close(server);
  });
}

test("a foreign program that listens on a leased automatic port makes its holder move", async () => {
  using state = new State();
  const { first, last } = await freePorts(2);
  const leases = await openPortLeases(hostPorts(join(state.dir, "processes")), { first, last });
  assert.equal(lease(leases, main("a")), first);
  const server = await listen(first);
  assert.equal(lease(leases, main("a")), last);
  await close(server);
});

test("engines keep their ports across a restart, running or not, and their own listening moves nobody", async () => {
  await using site = new ProcessSite();
  const { first, last } = await freePorts(3);
  const before = await site.open();
  await before.ensure({ ...site.workload(last), slot: "running" });
  await before.ensure({ ...site.workload(first + 1, ["--exit-code", "1"]), slot: "crashed" });
  await until("one listens", async () => (await before.observe("running"))[0]?.isListening);
  await until("one has crashed", async () => (await before.observe("crashed"))[0]?.phase === "exited");
  await before[Symbol.asyncDispose]();
  const leases = await openPortLeases(hostPorts(join(site.stateDir, "processes")), { first, last });
  assert.equal(lease(leases, main("running")), last);
  assert.equal(lease(leases, main("crashed")), first + 1);
  assert.equal(lease(leases, main("new")), first);
  assert.equal(lease(leases, main("too-late")), undefined);
});

test("a port outside a changed range stays with what runs on it only", async () => {
  await using site = new ProcessSite();
  const { first, last } = await freePorts(3);
  const before = await site.open();
  await before.ensure({ ...site.workload(first), slot: "running" });
  await before.ensure({ ...site.workload(first + 1, ["--exit-code", "1"]), slot: "crashed" });
  await until("one listens", async () => (await before.observe("running"))[0]?.isListening);
  await until("one has crashed", async () => (await before.observe("crashed"))[0]?.phase === "exited");
  await before[Symbol.asyncDispose]();
  const leases = await openPortLeases(hostPorts(join(site.stateDir, "processes")), { first: last, last });
  assert.equal(lease(leases, main("running")), first);
  assert.equal(lease(leases, main("crashed")), last);
});

test("an automatic port leaves out the given ports, and a port in use names its holder", async () => {
  using state = new State();
  const { first, last } = await freePorts(2);
  const leases = await openPortLeases(hostPorts(join(state.dir, "processes")), { first, last });
  const avoid = new Set([first]);
  assert.equal(lease(leases, main("a"), avoid), last);
  assert.equal(lease(leases, main("b"), avoid), undefined);
  assert.equal(leases.reserve(main("b"), first), first);
  assert.deepEqual(
    [leases.holder(first), leases.holder(last), leases.holder(last + 1)],
    ["b/main", "a/main", undefined],
  );
});

test("each replica has a port of its own, and gives back no other", async () => {
  using state = new State();
  const { first, last } = await freePorts(2);
  const leases = await openPortLeases(hostPorts(join(state.dir, "processes")), { first, last });
  assert.equal(lease(leases, main("a")), first);
  assert.equal(lease(leases, main("a", 1)), last);
  assert.equal(leases.holder(last), "a/main-1");
  leases.release("a", { role: "main", ordinal: 1 });
  assert.deepEqual([leases.holder(first), leases.holder(last)], ["a/main", undefined]);
  lease(leases, main("a", 1));
  leases.release("a");
  assert.deepEqual([leases.holder(first), leases.holder(last)], [undefined, undefined]);
});
