import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { bootId } from "../../../src/lib/boot-id.ts";
import { startTimeOf } from "../../../src/lib/process-identity.ts";
import { acquireLock, LockHeld, lockSight, trustMs, usualLock } from "../../../src/store/state/lock.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

const own = { pid: process.pid, startTime: startTimeOf(process.pid), bootId: bootId() };

describe("a lock", () => {
  it("has one holder, which is named by its pid, and is free once disposed", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "operator.lock");
    const first = await acquireLock(path);
    await assert.rejects(acquireLock(path), (error) => error instanceof LockHeld && error.pid === process.pid);
    await first[Symbol.asyncDispose]();
    await (await acquireLock(path))[Symbol.asyncDispose]();
    assert.deepEqual(await readdir(dir.path), []);
  });

  for (const [what, text] of [
    ["another boot", JSON.stringify({ ...own, bootId: "before" })],
    ["a pid used again", JSON.stringify({ ...own, startTime: "1" })],
    ["nobody", JSON.stringify({ pid: 2 ** 30, bootId: bootId() })],
    ["a power cut", ""],
  ] as const) {
    it(`is taken over from ${what} by exactly one of many processes`, async () => {
      await using dir = await tempDir();
      const path = join(dir.path, "operator.lock");
      await writeFile(path, text);
      const takers = await Promise.allSettled(Array.from({ length: 20 }, () => acquireLock(path)));
      const winners = takers.filter((taker) => taker.status === "fulfilled");
      assert.equal(winners.length, 1);
      for (const taker of takers) {
        if (taker.status === "rejected") assert.ok(taker.reason instanceof LockHeld, String(taker.reason));
      }
      assert.deepEqual(await readdir(dir.path), ["operator.lock"]);
      await winners[0]?.value[Symbol.asyncDispose]();
    });
  }

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
  ] as const) {
    it(`that is ${how} is reported as lost, once, and left alone`, async () => {
      await using dir = await tempDir();
      const path = join(dir.path, "state", "operator.lock");
      await mkdir(dirname(path));
      let losses = 0;
      await using _lock = await acquireLock(path, { beatMs: 5, staleAfterMs: 60_000, onLost: () => (losses += 1) });
      await change(path);
      await until("that is told", () => losses > 0);
      assert.equal(losses, 1);
      if (how === "taken by another") assert.equal(await readFile(path, "utf8"), "another's");
    });
  }

  it("is not lost by a copy of it in its place", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "operator.lock");
    await using _lock = await acquireLock(path, { beatMs: 5, staleAfterMs: 60_000, onLost: assert.fail });
    await copyFile(path, `${path}.copy`);
    await utimes(`${path}.copy`, 1, 1);
    await rename(`${path}.copy`, path);
    await until("it is touched again", async () => (await stat(path)).mtimeMs > 1000);
  });

  const foreign = JSON.stringify({ ...own, pid: 1, startTime: "7", pidNamespace: "pid:[1]" });

  it("of a live holder in another container, which touches it, is kept", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "operator.lock");
    await writeFile(path, foreign);
    let at = 1000;
    const touches = setInterval(() => void utimes(path, at, ++at), 20);
    using stack = new DisposableStack();
    stack.defer(() => clearInterval(touches));
    await assert.rejects(
      acquireLock(path, { beatMs: 20, staleAfterMs: 60_000 }),
      (error) => error instanceof LockHeld && error.pid === 1,
    );
    assert.equal(await readFile(path, "utf8"), foreign);
  });

  it("of a dead holder in another container is taken over, by exactly one process", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "operator.lock");
    await writeFile(path, foreign);
    const takers = await Promise.allSettled(
      Array.from({ length: 8 }, () => acquireLock(path, { beatMs: 20, staleAfterMs: 100 })),
    );
    const winners = takers.filter((taker) => taker.status === "fulfilled");
    assert.equal(winners.length, 1);
    await winners[0]?.value[Symbol.asyncDispose]();
    assert.deepEqual(await readdir(dir.path), []);
  });

  it("is touched while it is held, and says in which pid namespace", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "operator.lock");
    await using _lock = await acquireLock(path, { beatMs: 10, staleAfterMs: 1000 });
    assert.match(await readFile(path, "utf8"), /"pidNamespace":"pid:\[\d+\]"/);
    const { mtimeMs } = await stat(path);
    await until("it is touched", async () => (await stat(path)).mtimeMs > mtimeMs);
  });

  it("outlives its holder's crash, a zombie's too, and goes to exactly one process", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "operator.lock");
    const module = new URL("../../../src/store/state/lock.ts", import.meta.url).href;
    const code = `
      const { acquireLock } = await import(${JSON.stringify(module)});
      try { await acquireLock(${JSON.stringify(path)}); process.stdout.write("won"); setInterval(() => {}, 1000); }
      catch (error) { process.stdout.write(error.name); }`;
    await using stack = new AsyncDisposableStack();
    const start = (): { readonly said: () => string; readonly end: () => Promise<void> } => {
      const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const closed = once(child, "close");
      let said = "";
      child.stdout.on("data", (chunk: Buffer) => (said += chunk.toString()));
      const end = async (): Promise<void> => {
        child.kill("SIGKILL");
        await closed;
      };
      stack.defer(end);
      return { said: () => said, end };
    };
    const first = start();
    await until("the first holds it", () => first.said() === "won");
    await assert.rejects(acquireLock(path), LockHeld);
    await first.end();
    assert.match(await readFile(path, "utf8"), /pid/, "a killed process cleans up nothing");
    const racers = [start(), start(), start()];
    await until("all have an answer", () => racers.every((racer) => racer.said() !== ""));
    assert.deepEqual(racers.map((racer) => racer.said()).toSorted(), ["LockHeld", "LockHeld", "won"]);
  });

  it("is checked by its holder before the holder acts, although the next beat is far away", async (t) => {
    await using dir = await tempDir();
    const path = join(dir.path, "operator.lock");
    let nowMs = 0;
    let losses = 0;
    t.mock.method(performance, "now", () => nowMs);
    await using held = await acquireLock(path, { beatMs: 60_000, staleAfterMs: 5000, onLost: () => (losses += 1) });
    await rm(path);
    await writeFile(path, "another's");
    assert.equal(held.isHeld(), true, "it was looked at a moment ago");
    // As after SIGSTOP and SIGCONT.
    nowMs = trustMs + 1;
    assert.deepEqual([held.isHeld(), held.isHeld(), losses], [false, false, 1]);
  });

  it("that has expired is taken though its holder lives, unless the holder has touched it since", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "operator.lock");
    await writeFile(path, JSON.stringify({ ...own, beatMs: 10 }));
    const expired = lockSight(path);
    assert.ok(expired?.pid === process.pid && expired.leaseMs === 30);
    await utimes(path, 1, 1);
    await assert.rejects(acquireLock(path, { ...usualLock, expired }), LockHeld);
    const later = lockSight(path);
    assert.ok(later !== undefined);
    await using _taken = await acquireLock(path, { ...usualLock, expired: later });
    await assert.rejects(acquireLock(path), LockHeld);
  });

  it("leaves nothing behind where it cannot be written", async () => {
    await using dir = await tempDir();
    const module = new URL("../../../src/store/state/lock.ts", import.meta.url).href;
    const script = `
      const { acquireLock } = await import(${JSON.stringify(module)});
      await acquireLock(${JSON.stringify(join(dir.path, "operator.lock"))}).catch((error) => console.log(error.code));`;
    // No file may grow: as a full disk, for this one process.
    const node = [process.execPath, "--disable-warning=ExperimentalWarning", "--input-type=module", "--eval", script];
    const limited = ["-c", `trap "" XFSZ; ulimit -f 0; exec "$@"`, "sh", ...node];
    const { stdout } = await promisify(execFile)("sh", limited);
    assert.equal(stdout, "EFBIG\n");
    assert.deepEqual(await readdir(dir.path), []);
  });
});
