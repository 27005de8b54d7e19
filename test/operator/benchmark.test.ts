import assert from "node:assert/strict";
import { mkdir, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import type { Benchmark } from "../../src/api/benchmark.ts";
import { tempDir } from "../support/temp-dir.ts";
import { memoryOf } from "./machine.ts";
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
  const named = { model: "a processor", architecture: "x64", usable: null, features: [], evidence: [] };
  const cpu = { ...named, cores: threads, threads };
  return { ...noDevicesHere, facts: () => ({ cpu, memory: memoryOf(1), gpus: [], drivers: [] }) };
}

/** A slot `a` that is ready, and was measured. */
async function measured(site = new Site(), command: readonly string[] = ["serve", "$(PORT)"]): Promise<Site> {
  await site.run({ a: custom({ command: [...command] }) });
  await site.request("a", "benchmark", { benchmark: result });
  await site.settle();
  return site;
}

const changedOf = (site: Site): string | undefined => site.slot("a").status.lastBenchmark?.changed;

test("a result is kept in status, its request is settled, and no engine is restarted for it", async () => {
  await using site = await measured();
  const { of, ...kept } = site.slot("a").status.lastBenchmark ?? { of: {} };
  assert.deepEqual([kept, of.modelFile], [result, "1:1"]);
  assert.deepEqual([site.requests.list("a"), site.deeds("a")], [[], ["start main"]]);
});

test("a result outlives a restart of the operator and of the engine, and the next one replaces it", async () => {
  await using site = await measured();
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

test("a person's annotation without a result changes nothing", async () => {
  await using site = await measured();
  await site.request("a", "benchmark");
  await site.settle();
  assert.deepEqual([site.slot("a").status.lastBenchmark?.levels, site.requests.list("a")], [result.levels, []]);
});

test("a paused operator keeps the request for later", async () => {
  await using site = await new Site().run({ a: custom() });
  await site.start({ isPaused: true });
  await site.request("a", "benchmark", { benchmark: result });
  await site.settle();
  assert.equal(site.slot("a").status.lastBenchmark, undefined);
  await site.start();
  assert.deepEqual(site.slot("a").status.lastBenchmark?.levels, result.levels);
});

describe("a result is void", () => {
  test("while the model's file is another, also over an unload", async () => {
    await using site = await measured();
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

  test("at once where the engine has loaded an earlier file", async () => {
    await using site = await new Site().run({ a: custom() });
    site.setModel("m", { fingerprint: "2:2" });
    await site.request("a", "benchmark", { benchmark: result });
    await site.settle();
    assert.equal(changedOf(site), "the model's file has changed");
  });

  test("while the slot holds another model, and after an edit of its settings", async () => {
    await using site = await measured();
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

  for (const [what, file, command] of [
    ["the engine's program was replaced", "engine", ["engine"]],
    [
      "the packages of the script that runs the engine were installed anew",
      "node_modules/.package-lock.json",
      [process.execPath, "src/main.ts"],
    ],
  ] as const)
    test(`once ${what}`, async () => {
      await using directory = await tempDir();
      const inPlace = (name: string): string => (name === process.execPath ? name : join(directory.path, name));
      for (const name of new Set([file, ...command])) {
        if (name === process.execPath) continue;
        await mkdir(dirname(inPlace(name)), { recursive: true });
        await writeFile(inPlace(name), "{}");
      }
      await using site = await measured(new Site(), [...command.map(inPlace), "$(PORT)"]);
      assert.equal(changedOf(site), undefined);
      await utimes(inPlace(file), 1, 1);
      await site.request("a", "restart");
      await site.advance(5);
      assert.equal(changedOf(site), "the engine has changed");
    });

  test("on another machine", async () => {
    const site = new Site();
    site.machine = machineOf(8);
    await using _site = await measured(site);
    await site.start();
    assert.equal(changedOf(site), undefined);
    site.machine = machineOf(16);
    await site.start();
    assert.equal(changedOf(site), "the machine's hardware or drivers have changed");
  });
});
