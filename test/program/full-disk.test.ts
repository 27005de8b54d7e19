import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { errorCode } from "../../src/lib/error-code.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { operatorPid } from "../support/published.ts";
import { berthProcess } from "../support/command.ts";
import { envelopeOf } from "../support/envelope.ts";
import { until } from "../support/until.ts";
import { chat, coder, engineOf, save } from "./coder.ts";

/** A separate disk for the state directory, which is to be full. Undefined where this user may mount none. */
async function smallDisk(path: string): Promise<AsyncDisposable | undefined> {
  await mkdir(path, { recursive: true });
  const { status } = spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", path]);
  if (status !== 0) return undefined;
  return {
    [Symbol.asyncDispose]: () =>
      until("it is unmounted", () => spawnSync("umount", [path]).status === 0).then(() => undefined),
  };
}

function fill(path: string): void {
  for (const size of [65_536, 4096, 1]) {
    try {
      for (;;) appendFileSync(path, Buffer.alloc(size, "x"));
    } catch (error) {
      assert.equal(errorCode(error), "ENOSPC");
    }
  }
}

/** Berth whose state directory is a separate disk; undefined where this user may mount none. */
async function onSmallDisk(stack: AsyncDisposableStack): Promise<RunningBerth | undefined> {
  let disk: AsyncDisposable | undefined;
  const started: RunningBerth[] = [];
  // Disposal runs in reverse: the processes end first, then the disk is unmounted, then the directory is deleted.
  stack.defer(async () => await started[0]?.[Symbol.asyncDispose]());
  const berth = await startBerth({
    prepare: async ({ configDir }) => {
      await save({ configDir }, coder('group = "gpu"\n'));
      disk = await smallDisk(join(configDir, "../state"));
      if (disk !== undefined) stack.use(disk);
    },
  });
  started.push(berth);
  stack.defer(async () => void (await berth.stop("SIGINT")));
  return disk === undefined ? undefined : berth;
}

/** Resolves once an engine other than the killed one answers. */
async function replacement(berth: RunningBerth, pid: number): Promise<void> {
  await until("another engine answers", async () => {
    const slot = JSON.stringify(await berth.slot("coder"));
    return !slot.includes(`"pid":${pid}`) && (await chat(berth)).status === 200;
  });
}

it("while the disk of the state directory is full, engines serve without an operator too, and writes are refused", async (t) => {
  await using stack = new AsyncDisposableStack();
  const berth = await onSmallDisk(stack);
  if (berth === undefined) {
    t.diagnostic(
      "this user may mount no disk: test/operator/report/written.test.ts has the same with a disk that only says so",
    );
    return;
  }
  await berth.state("coder", "ready", "idle");
  let fillers = 0;
  // The operator may replace a file meanwhile, and so leave room for a small one.
  const fillUp = (): void => fill(join(berth.stateDir, `filler-${(fillers += 1)}`));
  fillUp();
  const { pid } = await engineOf(berth);
  process.kill(operatorPid(berth), "SIGKILL");
  // The next one may or may not find room for its lock.
  await until("the operator has ended", () => /operator ended \(SIGKILL\)/.test(berth.log()));
  assert.equal((await chat(berth)).status, 200);

  const refused = await until("a loan is refused", async () => {
    fillUp();
    const headers = { "content-type": "application/json" };
    const path = `${berth.url}/api/groups/gpu/lend`;
    const answered = await fetch(path, { method: "POST", headers, body: '{"seconds":60}' });
    return answered.ok ? undefined : answered;
  });
  const { error } = await envelopeOf(refused);
  assert.deepEqual([refused.status, error.code], [503, "system.overloaded"]);
  assert.ok(error.message.endsWith(`make room on the disk of ${berth.stateDir}/loans`), error.message);
  const { code, stderr } = await until("the command is refused", async () => {
    fillUp();
    const ended = await berthProcess(["lend", "1h", "--group", "gpu"], { SVC_URL: berth.url });
    return ended.code === 0 ? undefined : ended;
  });
  assert.equal(code, 1);
  assert.equal(
    stderr,
    `system.overloaded: there is no disk space to do this: make room on the disk of ${berth.stateDir}/loans\n` +
      "delete some files on the disk of that directory, or enlarge it\n",
  );
  const makeRoom = async (): Promise<void> => {
    for (let filler = 1; filler <= fillers; filler += 1)
      await rm(join(berth.stateDir, `filler-${filler}`), { force: true });
  };
  await makeRoom();
  await until("another operator watches", () => berth.log().split("operator watches").length >= 3);
  assert.equal((await engineOf(berth)).pid, pid);

  fillUp();
  process.kill(pid, "SIGKILL");
  await until("the engine has ended", () => startTimeOf(pid) === undefined);
  await makeRoom();
  await replacement(berth, pid);
});
