import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { residentBytes } from "../../src/lib/resident-memory.ts";

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
