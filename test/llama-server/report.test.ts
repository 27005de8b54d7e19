import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { isRecord } from "../../src/cli/output.ts";
import { ask } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { startWithLlamaServer } from "./fixture.ts";

test("a llama-server reports its devices and derived settings, and logs no warning for the questions", async () => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeTinyModel(join(modelsDir, "tiny.gguf"));
    await writeFile(join(configDir, "slots/primary.toml"), '[model]\ndefault = "tiny"\nparallel = 17\n');
  });
  await berth.state("primary", "ready");
  const messages = [{ role: "user", content: "canary" }];
  await ask(berth.url, "/v1/chat/completions", { model: "primary", messages, max_tokens: 4 });
  const used = await until("a part of the cache is used", () => cacheUsage(berth));
  assert.ok(used < 0.01, `a small part: ${used}`);
  const own = await (await fetch(new URL("/api/metrics/engines", berth.url))).text();
  const label = '{slot="primary",role="main",ordinal="0"}';
  const prompt = own.split("\n").find((line) => line.startsWith(`llamacpp:prompt_tokens_total${label} `));
  assert.ok(Number(prompt?.split(" ").at(-1)) > 0, own);
  assert.match(own, /^# TYPE llamacpp:prompt_tokens_total counter$/m);
  const slot = await berth.slot("primary");
  assert.deepEqual(slot["compute"], { devices: [], layers_offloaded: 0, layers_total: 3, buffers: [] });
  assert.equal(slot["backend"], "cpu");
  const decisions = isRecord(slot["decisions"]) ? slot["decisions"] : {};
  assert.deepEqual(decisions["contextSize"], {
    value: "2048",
    reason: "of the model's 2048 for each of 17 requests at once: within a quarter of the memory",
  });
  assert.ok(isRecord(decisions["promptCacheBytes"]));
  const types = Array.isArray(slot["conditions"]) ? slot["conditions"].filter(isRecord).map(({ type }) => type) : [];
  assert.deepEqual(types, ["Ready", "Available"]);
  const log = await readFile(join(berth.stateDir, "logs/primary.main.log"), "utf8");
  assert.match(log, /n_slots = 17, n_ctx_slot = 2048, kv_unified = 'true'/);
  assert.match(log, /prompt cache is enabled, size limit: \d{1,4} MiB/);
  const warnings = log.split("\n").filter((line) => / [WE] /.test(line) && line.includes("exception"));
  assert.deepEqual(warnings, []);
  assert.ok(!log.includes("canary"), "no prompt is in its log");
});

test("a cache that all places share is nearly full where one request has filled it", async () => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeTinyModel(join(modelsDir, "tiny.gguf"));
    const text = 'args = ["--ctx-size", "2048"]\n[model]\ndefault = "tiny"\nparallel = 17\n';
    await writeFile(join(configDir, "slots/primary.toml"), text);
  });
  await berth.state("primary", "ready");
  const prompt = "the people of the water ".repeat(55);
  await ask(berth.url, "/v1/completions", { model: "primary", prompt, max_tokens: 4 });
  await until("it is nearly full", async () => ((await cacheUsage(berth)) ?? 0) > 0.7);
  const log = await readFile(join(berth.stateDir, "logs/primary.main.log"), "utf8");
  assert.match(log, /n_slots = 17, n_ctx_slot = 2048, kv_unified = 'true'/);
});

async function cacheUsage({ url }: { readonly url: string }): Promise<number | undefined> {
  const page = await (await fetch(new URL("/metrics", url))).text();
  const used = /^berth_engine_kv_cache_usage_ratio\{slot="primary",ordinal="0"\} (.+)$/m.exec(page)?.[1];
  return used === undefined || Number(used) === 0 ? undefined : Number(used);
}

test("a slot that wants a GPU of a llama-server without one serves, and is reported as degraded", async () => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeTinyModel(join(modelsDir, "tiny.gguf"));
    const text = 'backend = "cuda"\n[model]\ndefault = "tiny"\nprompt_cache_bytes = 0\n';
    await writeFile(join(configDir, "slots/primary.toml"), text);
  });
  await berth.state("primary", "ready");
  const slot = await berth.slot("primary");
  const conditions = Array.isArray(slot["conditions"]) ? slot["conditions"].filter(isRecord) : [];
  const degraded = conditions.find(({ type }) => type === "Degraded");
  assert.equal(degraded?.["reason"], "NotOnGpu");
  assert.match(String(degraded["message"]), /^the spec asks for cuda, and 0 of 3 layers are on a GPU;/);
  const log = await readFile(join(berth.stateDir, "logs/primary.main.log"), "utf8");
  assert.match(log, /prompt cache is disabled/);
  assert.doesNotMatch(log, /fitting params to device memory/);
});
