import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { Workload } from "../../../src/api/workload.ts";
import { freePort } from "../../support/free-port.ts";
import { until } from "../../support/until.ts";
import { only, pidOf, ProcessSite, startTimeIn } from "./site.ts";

const isRoot = process.getuid?.() === 0;
const nobody = 65_534;

describe("an engine without a record is never adopted", () => {
  for (const [what, lose] of [
    ["was never written", (file) => rm(file)],
    ["is torn", (file) => writeFile(file, '{"schema":1,"insta')],
  ] satisfies [string, (file: string) => Promise<void>][]) {
    test(`its record ${what}: it is listed, counts as exited, and is ended before the next starts`, async () => {
      await using site = new ProcessSite();
      const before = await site.startedAndLeft(site.sleep(), { listens: false });
      await lose(site.recordFile);
      await using runtime = await site.open();
      assert.deepEqual(await runtime.list(), ["primary"]);
      const seen = await only(runtime);
      assert.deepEqual([seen.phase, seen.isListening, seen.exit?.reason], ["exited", false, "Unknown"]);
      assert.match(seen.exit?.message ?? "", new RegExp(`process ${pidOf(before)} was left without a record`));
      await runtime.ensure(site.sleep());
      const next = await only(runtime);
      assert.equal(next.phase, "running");
      assert.notEqual(pidOf(next), pidOf(before));
      await until("it alone carries its label", async () => (await site.population()) === 1);
      await runtime.remove("primary", undefined, { stopSeconds: 10 });
      assert.deepEqual([await site.population(), await runtime.list()], [0, []]);
    });
  }
});

describe("a forged label", () => {
  test("with the secret of an engine that has ended, of the same user, is no engine", async () => {
    await using site = new ProcessSite();
    const workload = site.workload(await freePort());
    const before = await site.startedAndLeft(workload);
    const stolen = environmentOf(pidOf(before));
    process.kill(pidOf(before), "SIGKILL");
    await until("the engine is gone", async () => (await site.population()) === 0);
    await using _copy = await openCopy(workload, stolen);
    await using runtime = await site.open();
    const seen = await only(runtime);
    assert.deepEqual([seen.phase, seen.isListening, seen.id], ["exited", false, before.id]);
  });

  test("does not make its program's socket the engine's", async () => {
    await using site = new ProcessSite();
    await using runtime = await site.open();
    const workload = site.workload(await freePort());
    await runtime.ensure({ ...workload, command: ["sleep", "3600"] });
    const { pid } = await site.readRecord();
    await until("the engine carries its label", async () => (await site.population()) === 1);
    // All that another engine under SVC_ENGINE_USER can read of this one.
    await using _copy = await openCopy(workload, environmentOf(pid));
    const seen = await only(runtime);
    assert.deepEqual([seen.phase, seen.isListening, seen.isPortTaken], ["running", false, true]);
  });

  test("on a process of another start, at a recorded pid and start time, is no engine", async () => {
    await using site = new ProcessSite();
    const before = await site.startedAndLeft(site.sleep(), { listens: false });
    assert.equal((await stat(site.recordFile)).mode & 0o777, 0o600, "only the operator may read what identifies it");
    const record = await site.readRecord();
    assert.equal(record.uid, process.geteuid?.());
    await writeFile(site.recordFile, JSON.stringify({ ...record, start: "another" }));
    await using runtime = await site.open();
    const seen = await only(runtime);
    assert.deepEqual([seen.phase, seen.isListening, seen.id], ["exited", false, before.id]);
  });

  if (isRoot) {
    test("of another user is neither adopted nor ended by root, and is not asked anything", async () => {
      await using site = new ProcessSite();
      const workload = site.workload(await freePort());
      await using forged = await openCopy(workload, forgery(site, workload), nobody);
      await using runtime = await site.open();
      assert.deepEqual([await runtime.list(), await runtime.observe("primary")], [[], []]);
      assert.deepEqual(await readdir(join(site.stateDir, "processes")), []);
      await runtime.ensure({ ...workload, command: ["sleep", "3600"] });
      const seen = await only(runtime);
      assert.deepEqual([seen.isListening, seen.isPortTaken], [false, true]);
      await runtime.remove("primary", undefined, { stopSeconds: 0 });
      assert.ok(forged.isAlive());
    });

    test("of another user is no engine either where it knows the secret and stands in the record", async () => {
      await using site = new ProcessSite({ engineUser: "nobody" });
      const workload = site.workload(await freePort());
      await site.startedAndLeft({ ...workload, command: ["sleep", "3600"] }, { listens: false });
      const record = await site.readRecord();
      assert.equal(record.uid, nobody);
      const stolen = environmentOf(record.pid);
      process.kill(record.pid, "SIGKILL");
      await until("the engine is gone", async () => (await site.population()) === 0);
      await using copy = await openCopy(workload, stolen, 1);
      const forged = { ...record, pid: copy.pid, startTime: startTimeIn(copy.pid) };
      await writeFile(site.recordFile, JSON.stringify(forged));
      await using runtime = await site.open();
      assert.deepEqual([(await only(runtime)).phase, (await only(runtime)).isListening], ["exited", false]);
      await runtime.remove("primary", undefined, { stopSeconds: 0 });
      assert.ok(copy.isAlive());
    });
  }
});

function environmentOf(pid: number): Record<string, string> {
  const pairs = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").filter(Boolean);
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
}

/** What everybody on the machine can know or guess. */
function forgery(site: ProcessSite, { slot, role, hash, port, env }: Workload): Record<string, string> {
  const label = {
    BERTH_INSTANCE: site.instance,
    BERTH_SLOT: slot,
    BERTH_ROLE: role,
    BERTH_ORDINAL: "0",
    BERTH_HASH: hash,
  };
  const plain = Object.entries(env).filter((pair): pair is [string, string] => typeof pair[1] === "string");
  return { ...Object.fromEntries(plain), ...label, BERTH_PORT: String(port), BERTH_START: "guessed" };
}

/** A process of its own session, as an engine is, that runs that engine's program; resolves once it listens. */
async function openCopy(
  workload: Workload,
  env: Record<string, string>,
  uid?: number,
): Promise<AsyncDisposable & { readonly pid: number; isAlive(): boolean }> {
  const [program = "", ...args] = workload.command;
  const child: ChildProcess = spawn(program, args, {
    env,
    detached: true,
    stdio: "ignore",
    ...(uid === undefined ? {} : { uid, gid: uid }),
  });
  const exited = once(child, "exit");
  await until("the copy listens", async () => {
    assert.equal(child.exitCode, null);
    return await fetch(`http://127.0.0.1:${workload.port}/health`).then(
      () => true,
      () => false,
    );
  });
  const { pid = 0 } = child;
  return {
    pid,
    isAlive: () => child.exitCode === null && child.signalCode === null,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await exited;
    },
  };
}
