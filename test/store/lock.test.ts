import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { bootId } from "../../src/lib/boot-id.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { acquireLock, LockHeld } from "../../src/store/lock.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const own = { pid: process.pid, startTime: startTimeOf(process.pid), bootId: bootId() };

describe("a lock", () => {
  it("is held by one, told by pid, and free once disposed", async () => {
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
    it(`is taken over from ${what} by exactly one of many`, async () => {
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

  it("outlives its holder's crash, a zombie's too, and goes to exactly one process", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "operator.lock");
    const module = new URL("../../src/store/lock.ts", import.meta.url).href;
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
});
