import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { processOf } from "../llama-server/fixture.ts";
import { runBerth } from "../support/command.ts";
import { events, post, record } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { holders, mebibytes } from "./card.ts";
import {
  assertNear,
  chat,
  conditionOf,
  deviceBytes,
  measured,
  operatorOf,
  sharedModels,
  pidOf,
  ready,
  released,
  shellOf,
  startOnGpu,
} from "./fixture.ts";

const named = { model: "large", top: 'backend = "cuda"', more: "context_size = 8192\nparallel = 4" } as const;
const automatic = { model: "small", more: "context_size = 8192" } as const;
const processor = { model: "small", top: 'backend = "cpu"', more: "context_size = 4096" } as const;
const env = 'CUDA_VISIBLE_DEVICES = ""';
const hidden = { model: "small", top: 'backend = "cuda"', more: "context_size = 4096", env } as const;

describe("slots on the GPU", () => {
  it("compute where their backend says, and their memory is what nvidia-smi says of their processes", async (test) => {
    const models = await sharedModels();
    await using berth = await startOnGpu(models, { named, automatic, processor, hidden });
    for (const name of ["named", "automatic"]) {
      const slot = await measured(berth, name);
      const { pid } = processOf(slot);
      const told = (await holders()).get(pid);
      const bytes = deviceBytes(slot);
      const words = (await readFile(`/proc/${pid}/cmdline`, "utf8")).split("\0");
      assert.equal(words[words.indexOf("--fit") + 1], "off", words.join(" "));
      const { devices, layers_offloaded: layers, layers_total: of } = record(slot["compute"]);
      test.diagnostic(
        `${name}: ready after ${String(slot["last_load_seconds"])} s, ${mebibytes(bytes ?? 0)} on the GPU ` +
          `(nvidia-smi: ${mebibytes(told ?? 0)}), ${String(layers)} of ${String(of)} layers`,
      );
      assert.equal(slot["backend"], "cuda");
      assert.deepEqual([devices, layers], [["CUDA0"], of]);
      assert.notEqual(conditionOf(slot, "Degraded")?.status, "True", JSON.stringify(slot["conditions"]));
      assertNear(`status of ${name}`, bytes, told);
      const shown = await runBerth(["slot", "show", name], shellOf(berth));
      for (const part of ["GPU memory:", ` of ${models.card.address}`])
        assert.ok(shown.stdout.includes(part), shown.stdout);
      const metrics = await (await fetch(`${berth.operatorUrl}/metrics`)).text();
      const labels = [`slot="${name}"`, `device="${models.card.address}"`];
      const line = metrics
        .split("\n")
        .find((each) => each.startsWith("berth_slot_memory_bytes{") && labels.every((label) => each.includes(label)));
      assertNear(`metric of ${name}`, line === undefined ? undefined : Number(line.split(" ").at(-1)), told);
      test.diagnostic(`${name}: a chat of 8 tokens took ${Math.round(await chat(berth, name))} ms`);
      const streamed = await post(berth.url, "/v1/chat/completions", {
        model: name,
        messages: [{ role: "user", content: "hello" }],
        max_tokens: 8,
        ignore_eos: true,
        stream: true,
      });
      assert.equal(streamed.status, 200);
      const { chunks, isDone } = await events(streamed);
      assert.ok(isDone && chunks.length >= 8, `${chunks.length} chunks`);
    }
    for (const name of ["processor", "hidden"]) {
      const slot = await ready(berth, name);
      const { pid } = processOf(slot);
      await chat(berth, name);
      const held = (await holders()).get(pid);
      const degraded = conditionOf(slot, "Degraded");
      test.diagnostic(
        `${name}: ${mebibytes(held ?? 0)} on the GPU, ${JSON.stringify(slot["compute"])}; ` +
          `Degraded ${String(degraded?.reason)}: ${String(degraded?.message)}`,
      );
      assert.equal(held, undefined);
      const environment = await readFile(`/proc/${pid}/environ`, "utf8");
      assert.ok(environment.split("\0").includes("CUDA_VISIBLE_DEVICES="));
      assert.equal(deviceBytes(await berth.slot(name)), undefined);
      if (name === "hidden") {
        assert.deepEqual([degraded?.status, degraded?.reason], ["True", "NotOnGpu"]);
        assert.match(degraded?.message ?? "", /^the spec asks for cuda, and 0 of \d+ layers are on a GPU/);
      } else {
        assert.equal(slot["backend"], "cpu");
        assert.notEqual(degraded?.status, "True");
      }
    }
  });

  it("leave the GPU with unload, are started again after kill -9, and go on while the operator is killed", async (test) => {
    const models = await sharedModels();
    await using berth = await startOnGpu(models, { named, automatic });
    await Promise.all([ready(berth, "named"), ready(berth, "automatic")]);
    const unloaded = await pidOf(berth, "automatic");
    let began = performance.now();
    const unload = await runBerth(["slot", "unload", "automatic", "--wait"], shellOf(berth));
    assert.equal(unload.code, 0, unload.stderr);
    const told = performance.now() - began;
    const more = await released(unloaded);
    test.diagnostic(
      `unload --wait returned after ${Math.round(told)} ms, its memory was free ${Math.round(more)} ms later`,
    );
    assert.ok(more < 2000, `${more} ms`);

    const killed = await pidOf(berth, "named");
    process.kill(killed, "SIGKILL");
    began = performance.now();
    const freedAfter = await released(killed);
    const again = await until("another engine is ready", async () => {
      const slot = await ready(berth, "named");
      return Array.isArray(slot["processes"]) && slot["processes"].length > 0 && processOf(slot).pid !== killed
        ? slot
        : undefined;
    });
    test.diagnostic(
      `after kill -9 the memory was free after ${Math.round(freedAfter)} ms, and the next engine ready after ` +
        `${Math.round(performance.now() - began)} ms (restarts ${String(again["restarts"])})`,
    );
    await chat(berth, "named");
    const held = await holders();
    assert.ok(held.has(processOf(again).pid) && !held.has(killed));

    const before = await measured(berth, "named");
    const { pid } = await operatorOf(berth);
    assert.ok(typeof pid === "number" && pid > 0);
    began = performance.now();
    process.kill(pid, "SIGKILL");
    await chat(berth, "named");
    await until("the next operator has read every slot", async () => {
      const next = await operatorOf(berth);
      return next["pid"] !== pid && next["isSettled"] === true;
    });
    test.diagnostic(`the next operator had read every slot after ${Math.round(performance.now() - began)} ms`);
    const slot = await measured(berth, "named");
    assert.equal(processOf(slot).pid, processOf(before).pid);
    assert.deepEqual([slot["backend"], slot["restarts"]], ["cuda", before["restarts"]]);
    await chat(berth, "named");
    assertNear("its memory", deviceBytes(slot), (await holders()).get(processOf(slot).pid));
  });
});
