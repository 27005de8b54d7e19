import assert from "node:assert/strict";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { processOf } from "../llama-server/fixture.ts";
import { envelopeOf } from "../support/envelope.ts";
import { record } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { holders, mebibyte, mebibytes, readCard, sampled } from "./card.ts";
import { startForeign } from "./foreign.ts";
import {
  chat,
  conditionOf,
  conditionsOf,
  settled,
  deviceBytes,
  loadMs,
  manifest,
  sharedModels,
  type Models,
  ready,
  reason,
  released,
  startOnGpu,
} from "./fixture.ts";
import { contextFor } from "./models.ts";

/** A context that needs this part of the card, in a manifest of the large model. */
async function contextOf(models: Models, part: number): Promise<number> {
  return await contextFor(models.card, "large", models.card.usableBytes * part);
}

describe("a slot for which the GPU has too little room", () => {
  it("is refused before anything is started, and a PUT of it too; with the context that the message names it loads", async (test) => {
    const models = await sharedModels();
    const tokens = await contextOf(models, 1.5);
    await using berth = await startOnGpu(models, {
      wide: { model: "large", top: 'backend = "cuda"', more: `context_size = ${tokens}` },
    });
    const stalled = await reason(berth, "wide", "DoesNotFit");
    const slot = await berth.slot("wide");
    test.diagnostic(`${tokens} tokens: ${stalled.message}`);
    assert.deepEqual([slot["processes"], slot["restarts"], slot["state"]], [[], 0, "error"]);
    assert.equal(conditionOf(slot, "Stalled")?.reason, "DoesNotFit");
    const [, most] = /it fits with context_size (\d+)/.exec(stalled.message) ?? [];
    assert.ok(most !== undefined && Number(most) < tokens, stalled.message);

    const refused = await fetch(new URL("/api/slots/another", berth.url), {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ backend: "cuda", model: { default: "large", contextSize: tokens } }),
    });
    const { error } = await envelopeOf(refused);
    assert.deepEqual([refused.status, error.code], [409, "config.fit"]);
    test.diagnostic(`PUT: ${error.message}`);
    assert.equal((await fetch(new URL("/api/slots/another", berth.url))).status, 404);
    // The program that prints what a load would take begins on the GPU, too.
    await until("nothing is on the GPU", async () => (await holders()).size === 0, loadMs);

    const fitting = manifest({ model: "large", top: 'backend = "cuda"', more: `context_size = ${most}` });
    await writeFile(join(berth.configDir, "slots/wide.toml"), fitting);
    const loaded = await settled(berth, "wide");
    const held = (await holders()).get(processOf(loaded).pid) ?? 0;
    test.diagnostic(`with context_size ${most}: ready, ${mebibytes(held)} of ${mebibytes(models.card.usableBytes)}`);
  });

  it("starts with spill allowed, and says how many of its layers are on the GPU", async (test) => {
    const models = await sharedModels();
    const tokens = await contextOf(models, 1.04);
    await using berth = await startOnGpu(models, {
      spilled: { model: "large", top: 'backend = "cuda"', more: `context_size = ${tokens}\nspill = "allow"` },
    });
    const began = performance.now();
    const slot = await ready(berth, "spilled");
    const degraded = conditionOf(slot, "Degraded");
    const { layers_offloaded: layers, layers_total: all } = record(slot["compute"]);
    test.diagnostic(
      `ready after ${((performance.now() - began) / 1000).toFixed(1)} s, ${String(layers)} of ${String(all)} layers; ` +
        `Degraded ${degraded?.reason}: ${degraded?.message}`,
    );
    assert.deepEqual([degraded?.status, degraded?.reason], ["True", "NotOnGpu"]);
    assert.match(
      degraded?.message ?? "",
      new RegExp(`^the spec asks for cuda, and ${String(layers)} of ${String(all)} layers are`),
    );
    assert.ok(Number(layers) > 0 && Number(layers) < Number(all));
    assert.equal(slot["backend"], "cuda");
    await chat(berth, "spilled", 2);
  });

  it("waits with NoMemory while another program holds the GPU, and loads soon after that has ended", async (test) => {
    const models = await sharedModels();
    await models.write("large");
    await using foreign = await startForeign(models, "large", await contextOf(models, 0.7));
    const held = (await holders()).get(foreign.pid) ?? 0;
    assert.ok(held > models.card.usableBytes / 2, mebibytes(held));
    await using berth = await startOnGpu(models, {
      late: { model: "large", more: `context_size = ${await contextOf(models, 0.5)}` },
    });
    const waits = await reason(berth, "late", "NoMemory");
    const slot = await berth.slot("late");
    test.diagnostic(`beside ${mebibytes(held)} of another program: ${waits.message}`);
    assert.deepEqual([slot["processes"], slot["restarts"]], [[], 0]);
    assert.notEqual(conditionOf(slot, "Stalled")?.status, "True");
    const began = performance.now();
    await foreign.end();
    await settled(berth, "late");
    const took = performance.now() - began;
    const after = await berth.slot("late");
    test.diagnostic(
      `ready ${Math.round(took)} ms after that program was killed, ${String(after["last_load_seconds"])} s of which were the load`,
    );
    const load = (after.last_load_seconds ?? 0) * 1000;
    assert.ok(took - load < 7000, `${took} ms, of which the load ${load} ms`);
  });

  it("ends with OutOfMemory where cudaMalloc refuses, and is not started again by itself", async (test) => {
    const models = await sharedModels();
    const tokens = await contextOf(models, 1.5);
    await using berth = await startOnGpu(models, {
      // Berth asks nothing of such a slot, and llama.cpp changes nothing: the driver refuses.
      greedy: {
        model: "large",
        top: 'backend = "cuda"\nargs = ["--fit", "off"]',
        more: `context_size = ${tokens}\nspill = "allow"`,
      },
    });
    const failed = await reason(berth, "greedy", "OutOfMemory");
    const slot = await berth.slot("greedy");
    test.diagnostic(failed.message);
    assert.match(failed.message, /allocating \d+(?:\.\d+)? MiB on device 0: cudaMalloc failed: out of memory/);
    assert.match(failed.message, /tried again once another slot releases memory, after an edit or on request/);
    assert.equal(conditionOf(slot, "Stalled")?.reason, "OutOfMemory");
    assert.deepEqual([slot["state"], slot["failures"], slot["next_retry_at"]], ["error", 1, null]);
    assert.equal(slot.last_error?.reason, "OutOfMemory");
    const samples = await sampled(async () => await new Promise((resolve) => setTimeout(resolve, 3000)));
    const [first] = samples;
    const late = samples.filter(({ atMs }) => atMs > (first?.atMs ?? 0) + 1000);
    assert.ok(late.length > 0 && late.every(({ holders: held }) => held.size === 0), "nothing was started again");
    assert.equal((await berth.slot("greedy"))["failures"], 1);
  });

  it("ends with OutOfMemory where CUDA itself finds no room to begin, and starts once an edit asks again", async (test) => {
    const models = await sharedModels();
    await models.write("large", "small");
    await using berth = await startOnGpu(models, {});
    const { usableBytes } = models.card;
    const tokens = await contextFor(models.card, "large", usableBytes - 350 * mebibyte);
    await using foreign = await startForeign(models, "large", tokens);
    const { freeBytes } = await readCard();
    const slot = (more: string): string =>
      manifest({
        model: "small",
        top: 'backend = "cuda"\nargs = ["--fit", "off"]',
        more: `context_size = 4096\nspill = "allow"\n${more}`,
      });
    const path = join(berth.configDir, "slots/tight.toml");
    await writeFile(path, slot(""));
    const failed = await reason(berth, "tight", "OutOfMemory");
    test.diagnostic(`with ${mebibytes(freeBytes)} free: ${failed.message}`);
    assert.match(failed.message, /out of memory/i);
    assert.equal(conditionOf(await berth.slot("tight"), "Stalled")?.reason, "OutOfMemory");
    await foreign.end();
    await writeFile(path, slot("parallel = 2"));
    await settled(berth, "tight");
    await chat(berth, "tight");
  });

  it("waits with MemoryHeld while another slot of the same moment loads, and loads when that one leaves", async (test) => {
    const models = await sharedModels();
    const half = `context_size = ${await contextOf(models, 0.6)}`;
    await models.write("large");
    const messages = new Map<string, string>();
    await using berth = await startOnGpu(models, {});
    const samples = await sampled(async () => {
      await Promise.all(
        ["first", "second"].map(async (name) => {
          await writeFile(join(berth.configDir, "slots", `${name}.toml`), manifest({ model: "large", more: half }));
        }),
      );
      await until(
        "one of them is ready",
        async () => {
          const both = await Promise.all(["first", "second"].map(async (name) => await berth.slot(name)));
          for (const [index, slot] of both.entries())
            for (const { reason: why, message } of conditionsOf(slot))
              messages.set(`${index === 0 ? "first" : "second"} ${why}`, message);
          return both.some(({ state }) => state === "ready" || state === "idle");
        },
        loadMs,
      );
    });
    const reasons = [...messages.keys()].join(", ");
    const held = [...messages].filter(([key]) => key.endsWith(" MemoryHeld"));
    test.diagnostic(reasons);
    for (const [key, message] of held) test.diagnostic(`${key}: ${message}`);
    assert.equal(held.length, 1, reasons);
    const loadedAtOnce = samples.map(
      ({ holders: each }) => [...each.values()].filter((bytes) => bytes > models.card.usableBytes / 3).length,
    );
    assert.ok(Math.max(...loadedAtOnce) <= 1, loadedAtOnce.join(" "));
    const [later = "", other = ""] =
      held[0]?.[0].startsWith("first") === true ? ["first", "second"] : ["second", "first"];
    assert.match(held[0]?.[1] ?? "", new RegExp(`for slot ${other}, which is being loaded`));
    assert.equal((await berth.slot(later))["restarts"], 0);

    const gone = processOf(await berth.slot(other)).pid;
    const began = performance.now();
    await rm(join(berth.configDir, "slots", `${other}.toml`));
    const freed = await released(gone);
    const slot = await settled(berth, later);
    test.diagnostic(
      `${other} left: its memory was free after ${Math.round(freed)} ms, ${later} ready after ` +
        `${Math.round(performance.now() - began)} ms, with ${mebibytes(deviceBytes(slot) ?? 0)}`,
    );
    await chat(berth, later);
  });
});
