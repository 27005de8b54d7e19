import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { utimesSync } from "node:fs";
import { copyFile, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { bootId } from "../../../src/lib/boot-id.ts";
import { startTimeOf } from "../../../src/lib/process-identity.ts";
import { acquireLock, LockHeld, lockSight, trustMs, usualLock, type HeldLock } from "../../../src/store/state/lock.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

const own = { pid: process.pid, startTime: startTimeOf(process.pid), bootId: bootId() };
const foreign = JSON.stringify({ ...own, pid: 1, startTime: "7", pidNamespace: "pid:[1]" });
const quick = { beatMs: 5, staleAfterMs: 60_000 };
const module = JSON.stringify(new URL("../../../src/store/state/lock.ts", import.meta.url).href);

/** A state directory, and the path of its lock. */
async function site() {
  const { path: dir, ...directory } = await tempDir();
  return { dir, path: join(dir, "operator.lock"), ...directory };
}

/** Takes the lock many times at once, and resolves with the only winner. */
async function winnerOf(takers: readonly Promise<HeldLock>[]): Promise<HeldLock> {
  const ends = await Promise.allSettled(takers);
  const [winner = assert.fail("nobody has taken it"), ...others] = ends.flatMap((each) =>
    each.status === "fulfilled" ? [each.value] : [],
  );
  assert.equal(others.length, 0);
  for (const each of ends)
    if (each.status === "rejected") assert.ok(each.reason instanceof LockHeld, String(each.reason));
  return winner;
}

describe("a lock", { concurrency: true }, () => {
  it("has one holder, which is named by its pid, and is free once disposed", async () => {
    await using at = await site();
    const first = await acquireLock(at.path);
    await assert.rejects(acquireLock(at.path), (error) => error instanceof LockHeld && error.pid === process.pid);
    await first[Symbol.asyncDispose]();
    await (await acquireLock(at.path))[Symbol.asyncDispose]();
    assert.deepEqual(await readdir(at.dir), []);
  });

  for (const [what, text, staleAfterMs] of [
    ["another boot", JSON.stringify({ ...own, bootId: "before" }), 5000],
    ["a pid used again", JSON.stringify({ ...own, startTime: "1" }), 5000],
    ["nobody", JSON.stringify({ pid: 2 ** 30, bootId: bootId() }), 5000],
    ["a power cut", "", 5000],
    ["a dead holder in another container", foreign, 100],
  ] as const)
    it(`is taken over from ${what} by exactly one of many`, async () => {
      await using at = await site();
      await writeFile(at.path, text);
      const takers = Array.from({ length: 10 }, () => acquireLock(at.path, { beatMs: 20, staleAfterMs }));
      const winner = await winnerOf(takers);
      assert.deepEqual(await readdir(at.dir), ["operator.lock"]);
      await winner[Symbol.asyncDispose]();
      assert.deepEqual(await readdir(at.dir), []);
    });

  for (const [how, change] of [
    ["deleted", (path: string) => rm(path)],
    ["deleted with its directory", (path: string) => rm(dirname(path), { recursive: true })],
    [
      "taken by another",
      async (path: string) => {
        await rm(path);
        await writeFile(path, "another's");
      },
    ],
  ] as const)
    it(`that is ${how} is reported as lost, once, and left alone`, async () => {
      await using at = await site();
      const path = join(at.dir, "state", "operator.lock");
      await mkdir(dirname(path));
      let losses = 0;
      await using _lock = await acquireLock(path, { ...quick, onLost: () => (losses += 1) });
      await change(path);
      await until("that is told", () => losses > 0);
      assert.equal(losses, 1);
      if (how === "taken by another") assert.equal(await readFile(path, "utf8"), "another's");
    });

  it("is touched while it is held, says in which pid namespace, and is not lost by a copy in its place", async () => {
    await using at = await site();
    await using _lock = await acquireLock(at.path, { ...quick, onLost: assert.fail });
    assert.match(await readFile(at.path, "utf8"), /"pidNamespace":"pid:\[\d+\]"/);
    await copyFile(at.path, `${at.path}.copy`);
    await utimes(`${at.path}.copy`, 1, 1);
    await rename(`${at.path}.copy`, at.path);
    await until("it is touched again", async () => (await stat(at.path)).mtimeMs > 1000);
  });

  it("of a live holder in another container, which touches it, is kept", async () => {
    await using at = await site();
    await writeFile(at.path, foreign);
    let touchedAt = 1000;
    // In one turn: none is still under way when the directory is removed.
    const touches = setInterval(() => utimesSync(at.path, touchedAt, ++touchedAt), 20);
    using stack = new DisposableStack();
    stack.defer(() => clearInterval(touches));
    const taken = acquireLock(at.path, { beatMs: 20, staleAfterMs: 60_000 });
    await assert.rejects(taken, (error) => error instanceof LockHeld && error.pid === 1);
    assert.equal(await readFile(at.path, "utf8"), foreign);
  });

  it("outlives its holder's crash, a zombie's too, and goes to exactly one process", async () => {
    await using at = await site();
    const code = `
      const { acquireLock } = await import(${module});
      try { await acquireLock(${JSON.stringify(at.path)}); process.stdout.write("won"); setInterval(() => {}, 1000); }
      catch (error) { process.stdout.write(error.name); }`;
    await using stack = new AsyncDisposableStack();
    const start = (): { readonly said: () => string; readonly end: () => Promise<void> } => {
      const stdio = ["ignore", "pipe", "inherit"] as const;
      const child = spawn(process.execPath, ["--input-type=module", "-e", code], { stdio: [...stdio] });
      const closed = once(child, "close");
      let said = "";
      child.stdout?.on("data", (chunk: Buffer) => (said += chunk.toString()));
      const end = async (): Promise<void> => {
        child.kill("SIGKILL");
        await closed;
      };
      stack.defer(end);
      return { said: () => said, end };
    };
    const first = start();
    await until("the first holds it", () => first.said() === "won");
    await assert.rejects(acquireLock(at.path), LockHeld);
    await first.end();
    assert.match(await readFile(at.path, "utf8"), /pid/, "a killed process cleans up nothing");
    const racers = [start(), start()];
    await until("all have an answer", () => racers.every((racer) => racer.said() !== ""));
    assert.deepEqual(racers.map((racer) => racer.said()).toSorted(), ["LockHeld", "won"]);
  });

  it("is checked by its holder before the holder acts, although the next beat is far away", async () => {
    await using at = await site();
    let [nowMs, losses] = [0, 0];
    const beats = { beatMs: 60_000, staleAfterMs: 5000, elapsedMs: () => nowMs };
    await using held = await acquireLock(at.path, { ...beats, onLost: () => (losses += 1) });
    await rm(at.path);
    await writeFile(at.path, "another's");
    assert.equal(held.isHeld(), true, "it was looked at a moment ago");
    // As after SIGSTOP and SIGCONT.
    nowMs = trustMs + 1;
    assert.deepEqual([held.isHeld(), held.isHeld(), losses], [false, false, 1]);
  });

  it("that has expired is taken though its holder lives, unless the holder has touched it since", async () => {
    await using at = await site();
    await writeFile(at.path, JSON.stringify({ ...own, beatMs: 10 }));
    const expired = lockSight(at.path);
    assert.ok(expired?.pid === process.pid && expired.leaseMs === 30);
    await utimes(at.path, 1, 1);
    await assert.rejects(acquireLock(at.path, { ...usualLock, expired }), LockHeld);
    const later = lockSight(at.path) ?? assert.fail();
    await using _taken = await acquireLock(at.path, { ...usualLock, expired: later });
    await assert.rejects(acquireLock(at.path), LockHeld);
  });

  it("leaves nothing behind where it cannot be written", async () => {
    await using at = await site();
    const script = `
      const { acquireLock } = await import(${module});
      await acquireLock(${JSON.stringify(at.path)}).catch((error) => console.log(error.code));`;
    // No file may grow: as a full disk, for this one process.
    const node = [process.execPath, "--input-type=module", "--eval", script];
    const limited = ["-c", `trap "" XFSZ; ulimit -f 0; exec "$@"`, "sh", ...node];
    const { stdout } = await promisify(execFile)("sh", limited);
    assert.equal(stdout, "EFBIG\n");
    assert.deepEqual(await readdir(at.dir), []);
  });
});
