import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openPortLeases } from "../../src/runtimes/ports.ts";
import { freePorts } from "../support/ports.ts";
import { until } from "../support/until.ts";
import { ProcessSite } from "./process-site.ts";

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
  const leases = await openPortLeases(state.dir, { first, last });
  assert.equal(leases.reserve("a", "main"), first);
  assert.equal(leases.reserve("a", "rerank"), first + 1);
  assert.equal(leases.reserve("a", "main"), first);
  assert.equal(leases.reserve("b", "main"), last);
  assert.equal(leases.reserve("c", "main"), undefined);
  leases.release("a", "rerank");
  assert.equal(leases.reserve("c", "main"), first + 1);
  leases.release("a");
  assert.equal(leases.reserve("d", "main"), first);
  assert.equal(leases.reserve("c", "main"), first + 1);
});

test("releasing a slot does not touch one whose name begins alike", async () => {
  using state = new State();
  const { first, last } = await freePorts(2);
  const leases = await openPortLeases(state.dir, { first, last });
  leases.reserve("a", "main");
  assert.equal(leases.reserve("a-2", "main"), last);
  leases.release("a");
  assert.equal(leases.reserve("a-2", "main"), last);
});

test("a fixed port is given unless another holds it, and moves its holder there", async () => {
  using state = new State();
  const { first, last } = await freePorts(2);
  const leases = await openPortLeases(state.dir, { first, last });
  assert.equal(leases.reserve("a", "main"), first);
  assert.equal(leases.reserve("b", "main", first), undefined);
  assert.equal(leases.reserve("a", "main", last), last);
  assert.equal(leases.reserve("b", "main", first), first);
  assert.equal(leases.reserve("c", "main"), undefined);
});

for (const host of ["127.0.0.1", "0.0.0.0", "::"]) {
  test(`an automatic port skips those on which a stranger listens on ${host}`, async () => {
    using state = new State();
    const { first, last } = await freePorts(2);
    const leases = await openPortLeases(state.dir, { first, last });
    const server = await listen(first, host);
    assert.equal(leases.reserve("a", "main"), last);
    await close(server);
  });
}

test("a stranger that has come to listen on a held automatic port makes its holder move", async () => {
  using state = new State();
  const { first, last } = await freePorts(2);
  const leases = await openPortLeases(state.dir, { first, last });
  assert.equal(leases.reserve("a", "main"), first);
  const server = await listen(first);
  assert.equal(leases.reserve("a", "main"), last);
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
  const leases = await openPortLeases(site.stateDir, { first, last });
  assert.equal(leases.reserve("running", "main"), last);
  assert.equal(leases.reserve("crashed", "main"), first + 1);
  assert.equal(leases.reserve("new", "main"), first);
  assert.equal(leases.reserve("too-late", "main"), undefined);
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
  const leases = await openPortLeases(site.stateDir, { first: last, last });
  assert.equal(leases.reserve("running", "main"), first);
  assert.equal(leases.reserve("crashed", "main"), last);
});

test("an automatic port leaves out those to be avoided, and a held one names its holder", async () => {
  using state = new State();
  const { first, last } = await freePorts(2);
  const leases = await openPortLeases(state.dir, { first, last });
  const avoid = new Set([first]);
  assert.equal(leases.reserve("a", "main", undefined, avoid), last);
  assert.equal(leases.reserve("b", "main", undefined, avoid), undefined);
  assert.equal(leases.reserve("b", "main", first, avoid), first);
  assert.deepEqual(
    [leases.holder(first), leases.holder(last), leases.holder(last + 1)],
    ["b/main", "a/main", undefined],
  );
});
