import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { announce, announced } from "../../src/lib/announcement.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

describe("the report that a process keeps in a file", () => {
  it("is what it says now, until its end", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "gateways/gateway-8080.json");
    let isReady = false;
    const own = announce(path, () => ({ isReady }));
    const identity = { pid: process.pid, startTime: startTimeOf(process.pid) };
    const { bootId, ...report } = JSON.parse(await readFile(path, "utf8"));
    assert.equal(typeof bootId, "string");
    assert.deepEqual(report, { isReady: false, ...identity });
    assert.equal((await stat(path)).mode & 0o007, 0, "no stranger reads it");
    isReady = true;
    await until("the report has changed", async () => /"isReady":true/.test(await readFile(path, "utf8")));
    isReady = false;
    own.refresh();
    assert.deepEqual(announced(path), { isReady: false, ...identity, bootId });
    own[Symbol.dispose]();
    assert.equal(announced(path), undefined);
    assert.deepEqual(await readdir(join(directory.path, "gateways")), []);
  });

  it("does not count for a process that is gone, or is another one by now", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "report.json");
    using _own = announce(path, () => ({}));
    const text = await readFile(path, "utf8");
    const child = spawn("/bin/sleep", ["60"]);
    await once(child, "spawn");
    const { pid = 0 } = child;
    const of = (startTime: unknown): string => JSON.stringify({ ...JSON.parse(text), pid, startTime });
    await writeFile(path, of(startTimeOf(pid)));
    assert.notEqual(announced(path), undefined);
    for (const other of [of("1"), of(1), text.replace(/"bootId":"/, "$&0"), "{", "[]", ""]) {
      await writeFile(path, other);
      assert.equal(announced(path), undefined, other);
    }
    await writeFile(path, of(startTimeOf(pid)));
    child.kill("SIGKILL");
    await once(child, "close");
    assert.equal(announced(path), undefined);
  });

  it("leaves the file of a successor, and a directory that was deleted, alone", async () => {
    await using directory = await tempDir();
    const state = join(directory.path, "state");
    const path = join(state, "gateways/gateway-8080.json");
    await mkdir(state);
    let version = "0.1.0";
    const own = announce(path, () => ({ version }));
    await writeFile(path, "another's");
    own[Symbol.dispose]();
    assert.equal(await readFile(path, "utf8"), "another's");
    using later = announce(path, () => ({ version }));
    await rm(state, { recursive: true });
    version = "0.2.0";
    later.refresh();
    assert.equal(announced(path), undefined);
    await assert.rejects(stat(state), { code: "ENOENT" });
  });
});
