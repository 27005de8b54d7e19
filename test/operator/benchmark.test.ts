import assert from "node:assert/strict";
import { mkdir, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test } from "node:test";
import type { Benchmark } from "../../src/api/benchmark.ts";
import type { Cpu } from "../../src/api/hardware.ts";
import { tempDir } from "../support/temp-dir.ts";
import { custom, noDevicesHere, Site } from "./site.ts";

const result: Benchmark = {
  measuredAt: "2026-11-23T07:00:00.000Z",
  model: "m",
  backend: "cpu",
  runtime: "process",
  loadSeconds: 1.5,
  maxTokens: 64,
  levels: [{ clients: 1, requests: 3, firstTokenMs: 12, tokensPerSecond: 40 }],
};

function machineOf(threads: number): Site["machine"] {
  const cpu: Cpu = {
    model: "a processor",
    architecture: "x64",
    cores: threads,
    threads,
    usable: null,
    features: [],
    evidence: [],
  };
  const memory = {
    total_bytes: 1,
    available_bytes: 1,
    swap_bytes: 0,
    limit_bytes: null,
    usable_bytes: 1,
    evidence: [],
  };
  return { ...noDevicesHere, facts: () => ({ cpu, memory, gpus: [], drivers: [] }) };
}

/** A slot `a` that is ready, and was measured. */
async function measured(site: Site, command: readonly string[] = ["serve", "$(PORT)"]): Promise<void> {
  await site.start();
  site.source.save("a", custom({ command: [...command] }));
  await site.advance(5);
  await site.request("a", "benchmark", { benchmark: result });
  await site.settle();
}

const changedOf = (site: Site): string | undefined => site.slot("a").status.lastBenchmark?.changed;

test("a result is kept in status, its request is settled, and no engine is restarted for it", async () => {
  await using site = new Site();
  await measured(site);
  const { of, ...kept } = site.slot("a").status.lastBenchmark ?? { of: {} };
  assert.deepEqual(kept, result);
  assert.equal(of.modelFile, "1:1");
  assert.deepEqual(site.requests.list("a"), []);
  assert.deepEqual(site.deeds("a"), ["start main"]);
});

test("a result outlives a restart of the operator and of the engine, and the next one replaces it", async () => {
  await using site = new Site();
  await measured(site);
  await site.start();
  await site.request("a", "restart");
  await site.advance(5);
  assert.deepEqual(site.deeds("a"), ["start main", "stop main", "start main"]);
  assert.deepEqual([site.slot("a").status.lastBenchmark?.levels, changedOf(site)], [result.levels, undefined]);
  const levels = [{ clients: 2, requests: 6, tokensPerSecond: 70 }];
  await site.request("a", "benchmark", { benchmark: { ...result, levels } });
  await site.settle();
  assert.deepEqual(site.slot("a").status.lastBenchmark?.levels, levels);
});

test("a result is void while the model's file is another, also over an unload", async () => {
  await using site = new Site();
  await measured(site);
  site.setModel("m", { fingerprint: "2:2" });
  await site.advance(1);
  assert.equal(changedOf(site), "the model's file has changed");
  await site.request("a", "unload");
  await site.advance(5);
  assert.deepEqual([site.state("a"), changedOf(site)], ["offline", "the model's file has changed"]);
  site.setModel("m", { fingerprint: "1:1" });
  await site.request("a", "load");
  await site.advance(5);
  assert.deepEqual([site.state("a"), changedOf(site)], ["ready", undefined]);
});

test("a result of an engine that has loaded an earlier file is void at once", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("a", custom());
  await site.advance(5);
  site.setModel("m", { fingerprint: "2:2" });
  await site.request("a", "benchmark", { benchmark: result });
  await site.settle();
  assert.equal(changedOf(site), "the model's file has changed");
});

test("a result is void while the slot holds another model, and after an edit of its settings", async () => {
  await using site = new Site();
  await measured(site);
  const swap = await site.request("a", "swap-model", { model: "tiny", specModel: "m" });
  await site.advance(10);
  assert.equal(changedOf(site), "the slot holds tiny now");
  await site.requests.remove("a", "swap-model", swap);
  await site.advance(10);
  assert.equal(changedOf(site), undefined);
  site.source.save("a", custom({ args: ["--more"] }));
  await site.advance(10);
  assert.equal(changedOf(site), "the slot's settings have changed");
  await site.request("a", "unload");
  await site.advance(5);
  assert.equal(changedOf(site), "the slot's settings have changed", "an unloaded slot forgets no change");
});

test("a result is void once the engine's program was replaced", async () => {
  await using directory = await tempDir();
  const program = join(directory.path, "engine");
  await writeFile(program, "one");
  await using site = new Site();
  await measured(site, [program, "$(PORT)"]);
  assert.equal(changedOf(site), undefined);
  await utimes(program, 1, 1);
  await site.request("a", "restart");
  await site.advance(5);
  assert.equal(changedOf(site), "the engine has changed");
});

test("a result is void on another machine", async () => {
  await using site = new Site();
  site.machine = machineOf(8);
  await measured(site);
  await site.start();
  assert.equal(changedOf(site), undefined);
  site.machine = machineOf(16);
  await site.start();
  assert.equal(changedOf(site), "the machine's hardware or drivers have changed");
});

test("a paused operator keeps the request for later", async () => {
  await using site = new Site();
  await site.start();
  site.source.save("a", custom());
  await site.advance(5);
  await site.start({ isPaused: true });
  await site.request("a", "benchmark", { benchmark: result });
  await site.settle();
  assert.equal(site.slot("a").status.lastBenchmark, undefined);
  await site.start();
  assert.deepEqual(site.slot("a").status.lastBenchmark?.levels, result.levels);
});

test("a person's annotation without a result changes nothing", async () => {
  await using site = new Site();
  await measured(site);
  await site.request("a", "benchmark");
  await site.settle();
  assert.deepEqual(site.slot("a").status.lastBenchmark?.levels, result.levels);
  assert.deepEqual(site.requests.list("a"), []);
});

test("a result is void once the packages of the script that runs the engine were installed anew", async () => {
  await using directory = await tempDir();
  const script = join(directory.path, "src/main.ts");
  const lock = join(directory.path, "node_modules/.package-lock.json");
  for (const file of [script, lock]) {
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, "{}");
  }
  await using site = new Site();
  await measured(site, [process.execPath, script, "$(PORT)"]);
  assert.equal(changedOf(site), undefined);
  await utimes(lock, 1, 1);
  await site.request("a", "restart");
  await site.advance(5);
  assert.equal(changedOf(site), "the engine has changed");
});
