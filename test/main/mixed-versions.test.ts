import assert from "node:assert/strict";
import { cp, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import * as earlier from "../fixtures/reader-a80e358.js";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { readPublished } from "../support/published.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));
const command = `command = ${JSON.stringify([process.execPath, "--disable-warning=ExperimentalWarning", engine])}\n`;
const manifests = {
  coder: `engine = "custom"\n${command}[env]\nDOUBLE_KEY = "$(BEARER)"\n`,
  pair: `engine = "custom"\nreplicas = 2\n${command}`,
  off: `engine = "custom"\nenabled = false\n${command}`,
};

async function prepare({ configDir }: { configDir: string }): Promise<void> {
  for (const [name, text] of Object.entries(manifests)) await writeFile(join(configDir, `slots/${name}.toml`), text);
}

async function isReady({ stateDir }: RunningBerth, name: string): Promise<boolean> {
  const status = (await readPublished(stateDir, name))?.status;
  return status?.state === "ready" && status.processes.every((each) => each.isReady);
}

it("an operator and gateway of a80e358 read all that this version publishes while it runs", async () => {
  await using berth = await startBerth({ prepare });
  for (const name of ["coder", "pair"]) await until(`${name} is ready`, () => isReady(berth, name));
  const { stateDir } = berth;
  await using published = await earlier.published.openPublished(stateDir);
  const operator = await until("the operator has settled", () => published.operator());
  assert.equal(earlier.availability.isOperatorLost(operator), false);
  for (const name of ["coder", "pair", "off"] as const) {
    const found = published.slot(name) ?? assert.fail(name);
    const { status, bearers, bearerList } = (await readPublished(stateDir, name)) ?? assert.fail(name);
    assert.equal(found.status.state, status.state);
    assert.deepEqual(found.bearers?.["main"], bearers?.main);
    assert.deepEqual(found.bearers?.["main"], bearerList?.find(({ ordinal }) => ordinal === 0)?.bearer);
    const around = { bootId: operator.bootId, operator, now: Date.now() };
    const { spec } = found;
    const slot = { name, spec, status: found.status, published: found };
    const { endpoint } = earlier.availability.availabilityOf(slot, "main", around);
    const ports = status.processes.filter(({ role }) => role === "main").map(({ port }) => port);
    assert.equal(endpoint?.port, ports[0]);
    assert.equal(ports.length, { coder: 1, pair: 2, off: 0 }[name]);
  }
  await using demand = await earlier.demand.openDemandStore(stateDir);
  const named = (): number => Object.keys(demand.list()[0]?.slots ?? {}).filter((name) => name in manifests).length;
  await until("the gateway's demand names every slot", () => named() === 3);
  assert.equal(demand.list().length, 1);
  await assert.rejects(earlier.lock.acquireLock(join(stateDir, "operator.lock")), { name: "LockHeld" });
});

it("an engine outlives the way to a80e358 and back: records and slots as that version writes them are adopted", async () => {
  const args = ["operator"];
  await using berth = await startBerth({ args, prepare });
  const { stateDir } = berth;
  for (const name of ["coder", "pair"]) await until(`${name} is ready`, () => isReady(berth, name));
  const before = (await readPublished(stateDir, "coder"))?.status;
  assert.equal(await berth.stop("SIGTERM"), 0);
  // Whatever an operator of that version reads, it writes again as it knows it.
  const publisher = await earlier.published.openPublisher(stateDir);
  for (const slot of await publisher.readSlots()) await publisher.writeSlot(slot);
  await using copy = await tempDir();
  await cp(join(stateDir, "processes"), copy.path, { recursive: true });
  const instance = (await readFile(join(stateDir, "instance"), "utf8")).trim();
  const known = (await earlier.records.RecordBook.open(copy.path, instance)).all();
  const coder = known.find(({ slot, role }) => slot === "coder" && role === "main") ?? assert.fail("its record");
  await writeFile(join(stateDir, "processes/coder.main.json"), JSON.stringify(coder));
  assert.ok((await readdir(copy.path)).includes("coder.main.json"));
  const { SVC_OPERATOR_PORT: _own, ...env } = berth.env;
  await using next = await startBerth({ args: ["operator", "--stop-engines"], env });
  await until("the next operator has settled", () => /operator watches/.test(next.log()));
  const after = await until("it is ready", async () => {
    const status = (await readPublished(stateDir, "coder"))?.status;
    return status?.state === "ready" ? status : undefined;
  });
  assert.deepEqual(
    [after.processes[0]?.pid, after.restarts, after.workloadHash],
    [before?.processes[0]?.pid, 0, before?.workloadHash],
  );
  assert.equal(coder.pid, before?.processes[0]?.pid);
});
