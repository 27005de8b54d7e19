import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { conditionOf } from "../../src/cli/slot-words.ts";
import { ask, record } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { startWithLlamaServer } from "./fixture.ts";

const slots = {
  primary: '[model]\ndefault = "tiny"\nparallel = 17\n',
  shared: 'args = ["--ctx-size", "2048"]\n[model]\ndefault = "tiny"\nparallel = 17\n',
  gpu: 'backend = "cuda"\n[model]\ndefault = "tiny"\nprompt_cache_bytes = 0\n',
} as const;

test("what llama-servers report", async (t) => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeTinyModel(join(modelsDir, "tiny.gguf"));
    for (const [name, text] of Object.entries(slots)) await writeFile(join(configDir, `slots/${name}.toml`), text);
  });
  for (const name of Object.keys(slots)) await berth.state(name, "ready", "idle");
  const logOf = async (name: string): Promise<string> =>
    await readFile(join(berth.stateDir, `logs/${name}.main.log`), "utf8");
  /** Undefined: none is used yet. */
  const cacheUsage = async (name: string): Promise<number | undefined> => {
    const page = await (await fetch(new URL("/metrics", berth.url))).text();
    const line = new RegExp(`^berth_engine_kv_cache_usage_ratio\\{slot="${name}",ordinal="0"\\} (.+)$`, "m");
    const used = Number(line.exec(page)?.[1] ?? 0);
    return used === 0 ? undefined : used;
  };

  await t.test("devices and derived settings, and the log has no warning for the questions", async () => {
    const messages = [{ role: "user", content: "canary" }];
    await ask(berth.url, "/v1/chat/completions", { model: "primary", messages, max_tokens: 4 });
    const used = await until("a part of the cache is used", () => cacheUsage("primary"));
    assert.ok(used < 0.01, `a small part: ${used}`);
    const own = await (await fetch(new URL("/api/metrics/engines", berth.url))).text();
    const label = '{slot="primary",role="main",ordinal="0"}';
    const prompt = own.split("\n").find((line) => line.startsWith(`llamacpp:prompt_tokens_total${label} `));
    assert.ok(Number(prompt?.split(" ").at(-1)) > 0, own);
    assert.match(own, /^# TYPE llamacpp:prompt_tokens_total counter$/m);
    const slot = await berth.slot("primary");
    assert.deepEqual(slot["compute"], { devices: [], layers_offloaded: 0, layers_total: 3, buffers: [] });
    assert.equal(slot["backend"], "cpu");
    const decisions = record(slot["decisions"]);
    assert.deepEqual(decisions["contextSize"], {
      value: "2048",
      reason: "of the model's 2048 for each of 17 requests at once: within a quarter of the memory",
    });
    assert.ok("promptCacheBytes" in decisions);
    assert.deepEqual(
      slot.conditions?.map(({ type }) => type),
      ["Ready", "Available"],
    );
    const log = await logOf("primary");
    assert.match(log, /n_slots = 17, n_ctx_slot = 2048, kv_unified = 'true'/);
    assert.match(log, /prompt cache is enabled, size limit: \d{1,4} MiB/);
    assert.doesNotMatch(log, / [WE] .*exception/);
    assert.ok(!log.includes("canary"), "no prompt is in its log");
  });

  await t.test("a cache that all places share is nearly full where one request has filled it", async () => {
    const prompt = "the people of the water ".repeat(55);
    await ask(berth.url, "/v1/completions", { model: "shared", prompt, max_tokens: 4 });
    await until("it is nearly full", async () => ((await cacheUsage("shared")) ?? 0) > 0.7);
    assert.match(await logOf("shared"), /n_slots = 17, n_ctx_slot = 2048, kv_unified = 'true'/);
  });

  await t.test("a slot that wants a GPU of a llama-server without one serves, and is degraded", async () => {
    const degraded = conditionOf(await berth.slot("gpu"), "Degraded");
    assert.equal(degraded?.reason, "NotOnGpu");
    assert.match(String(degraded.message), /^the spec asks for cuda, and 0 of 3 layers are on a GPU;/);
    const log = await logOf("gpu");
    assert.match(log, /prompt cache is disabled/);
    assert.doesNotMatch(log, /fitting params to device memory/);
  });
});
