import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { DenseSet } from "../../src/lib/dense-set.ts";
import { GatheredBytes } from "../../src/lib/gathered-bytes.ts";
import { residentBytes } from "../../src/lib/resident-memory.ts";

const mebibyte = 1024 * 1024;

it("members that have left a DenseSet are free at the next young collection, as they are not with a Set", () => {
  setFlagsFromString("--expose-gc");
  const gc: unknown = runInNewContext("gc");
  assert.ok(typeof gc === "function");
  const dense = new DenseSet<{ denseIndex: number; readonly payload: readonly number[] }>();
  const underWay: { denseIndex: number; readonly payload: readonly number[] }[] = [];
  const churn = (count: number): void => {
    for (let id = 0; id < count; id++) {
      const member = { denseIndex: -1, payload: Array.from({ length: 128 }, (_, at) => at + id) };
      dense.add(member);
      underWay.push(member);
      if (underWay.length <= 32) continue;
      const [gone] = underWay.splice(0, 1);
      if (gone !== undefined) dense.delete(gone);
    }
  };
  churn(100);
  // What the set consists of is old from here on.
  gc();
  gc();
  const before = process.memoryUsage().heapUsed;
  for (let round = 0; round < 50; round++) {
    churn(400);
    gc({ type: "minor" });
  }
  const grownBytes = process.memoryUsage().heapUsed - before;
  assert.ok(grownBytes < 1_000_000, `${grownBytes} bytes of 20 MB are kept`);
});

describe("gathered bytes", () => {
  it("of one byte each take little more memory than their length", () => {
    const gathered = new GatheredBytes();
    const count = 400_000;
    const heapBefore = process.memoryUsage().heapUsed;
    for (let index = 0; index < count; index += 1) gathered.add(Buffer.from([index & 0xff]));
    assert.ok(process.memoryUsage().heapUsed - heapBefore < 64 * mebibyte);
    assert.equal(gathered.take().length, count);
  });

  it("give their memory back when they are cleared", () => {
    const gathered = new GatheredBytes();
    for (let index = 0; index < 64; index += 1) gathered.add(Buffer.alloc(65_536));
    const before = process.memoryUsage().arrayBuffers;
    gathered.clear();
    assert.ok(before - process.memoryUsage().arrayBuffers > 3 * mebibyte);
    assert.equal(gathered.size, 0);
  });
});

describe("residentBytes", () => {
  it("is the memory of the process, and grows with it", async () => {
    const startedAt = new Date(Date.now() - process.uptime() * 1000);
    const before = residentBytes(process.pid, startedAt) ?? 0;
    const { rss } = process.memoryUsage();
    assert.ok(before > rss * 0.7 && before < rss * 1.3, `${before} of ${rss}`);
    const more = Buffer.alloc(64_000_000, 1);
    assert.ok((residentBytes(process.pid, startedAt) ?? 0) > before + more.length / 2);
  });

  it("is undefined for a process that is gone, or whose pid another process has now", async () => {
    const child = spawn("sleep", ["60"]);
    const startedAt = new Date();
    const { pid = 0 } = child;
    assert.ok((residentBytes(pid, startedAt) ?? 0) > 0);
    assert.equal(residentBytes(pid, new Date(startedAt.getTime() - 60_000)), undefined);
    child.kill("SIGKILL");
    await once(child, "exit");
    assert.equal(residentBytes(pid, startedAt), undefined);
  });
});
