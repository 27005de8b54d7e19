import assert from "node:assert/strict";
import { mkdir, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import type { Benchmark, BenchmarkBasis } from "../../src/api/benchmark.ts";
import { benchmarkBasis } from "../../src/operator/observe/benchmark-basis.ts";
import { lastBenchmarkOf } from "../../src/operator/report/benchmark.ts";
import { processTraits } from "../../src/runtimes/process/traits.ts";
import { tempDir } from "../support/temp-dir.ts";
import { published, status, workload } from "./fixture.ts";
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
const whole: BenchmarkBasis = { modelFile: "1:1", engine: "e", settings: "s", hardware: "h" };
const lastBenchmark = { ...result, of: whole };

/** A slot `a` that is ready, and was measured. */
async function measured(): Promise<Site> {
  const site = await new Site().run({ a: custom() });
  await site.request("a", "benchmark", { benchmark: result });
  await site.settle();
  return site;
}

const changedOf = (site: Site): string | undefined => site.slot("a").status.lastBenchmark?.changed;

test("a result is kept in status over restarts, its request is settled, and no engine is restarted for it", async () => {
  await using site = await measured();
  const { of, ...kept } = site.slot("a").status.lastBenchmark ?? { of: {} };
  assert.deepEqual([kept, of.modelFile], [result, "1:1"]);
  assert.deepEqual([site.requests.list("a"), site.deeds("a")], [[], ["start main"]]);
  await site.start();
  await site.request("a", "restart");
  await site.advance(5);
  assert.deepEqual([site.slot("a").status.lastBenchmark?.levels, changedOf(site)], [result.levels, undefined]);
  await site.request("a", "benchmark");
  await site.settle();
  assert.deepEqual(site.slot("a").status.lastBenchmark?.levels, result.levels, "an annotation without a result");
  const levels = [{ clients: 2, requests: 6, tokensPerSecond: 70 }];
  await site.request("a", "benchmark", { benchmark: { ...result, levels } });
  await site.settle();
  assert.deepEqual([site.slot("a").status.lastBenchmark?.levels, site.requests.list("a")], [levels, []]);
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

test("a result is void while its slot has another model's file or other settings, also over an unload", async () => {
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
  site.source.save("a", custom({ args: ["--more"] }));
  await site.advance(10);
  assert.equal(changedOf(site), "the slot's settings have changed");
  await site.request("a", "unload");
  await site.advance(5);
  assert.equal(changedOf(site), "the slot's settings have changed", "an unloaded slot forgets no change");
});

test("a result of an engine that has loaded an earlier file is void at once", () => {
  const request = { schema: 1, slot: "a", kind: "benchmark", token: "t", specHash: "", requestedAt: "" } as const;
  const requests = [{ ...request, benchmark: result }];
  const before = status({ decisions: { modelFingerprint: { value: "0:0", reason: "" } } });
  const held = { ref: "m", origin: "spec" } as const;
  const kept = lastBenchmarkOf({ requests, basis: whole, held }, before, { handledRequests: { benchmark: "t" } });
  assert.equal(kept.lastBenchmark?.changed, "the model's file has changed");
});

describe("a result is void", () => {
  const table: Readonly<Record<string, readonly [ref: string, BenchmarkBasis, expected: string | undefined]>> = {
    "never while all is as it was": ["m", whole, undefined],
    "while the slot holds another model": ["tiny", whole, "the slot holds tiny now"],
    "once the engine has changed": ["m", { ...whole, engine: "f" }, "the engine has changed"],
    "once the file has changed": ["m", { ...whole, modelFile: "2:2" }, "the model's file has changed"],
    "once the settings have changed": ["m", { ...whole, settings: "t" }, "the slot's settings have changed"],
    "on another machine": ["m", { ...whole, hardware: "i" }, "the machine's hardware or drivers have changed"],
  };
  for (const [name, [ref, basis, expected]] of Object.entries(table))
    test(name, () => {
      const given = { requests: [], basis, held: { ref, origin: "spec" } as const };
      const kept = lastBenchmarkOf(given, status({ lastBenchmark }), { handledRequests: {} });
      assert.equal(kept.lastBenchmark?.changed, expected);
    });

  test("where its engine's program was replaced, its script's packages were installed anew, or cores were added", async () => {
    await using directory = await tempDir();
    const [program = "", script = "", lock = ""] = ["engine", "src/main.ts", "node_modules/.package-lock.json"].map(
      (name) => join(directory.path, name),
    );
    for (const file of [program, script, lock]) {
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, "{}");
    }
    const basisOf = async (threads = 8): Promise<BenchmarkBasis | undefined> => {
      const named = { model: "a processor", architecture: "x64", usable: null, features: [], evidence: [] };
      const facts = { cpu: { ...named, cores: threads, threads }, memory: memoryOf(1), gpus: [], drivers: [] };
      return await benchmarkBasis(
        { machine: { ...noDevicesHere, facts: () => facts }, runtime: { traitsOf: () => processTraits } },
        {
          before: published({ lastBenchmark }),
          requests: [],
          model: undefined,
          workloads: [workload({ command: [program, script, "--port", "8081"] })],
        },
      );
    };
    const first = await basisOf();
    assert.deepEqual(await basisOf(), first);
    for (const file of [program, lock]) {
      const { engine } = (await basisOf()) ?? {};
      await utimes(file, 1, 1);
      assert.notEqual((await basisOf())?.engine, engine, file);
    }
    assert.notEqual((await basisOf(16))?.hardware, first?.hardware);
  });
});
