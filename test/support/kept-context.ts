import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { RunningBerth } from "./berth.ts";
import { post, record } from "./openai.ts";
import { writeShape } from "./shaped-model.ts";
import { shapes } from "./shapes.ts";
import { until } from "./until.ts";

const small = { ...shapes.dense, layers: 4, vocabulary: 4096, context: 8192 };

/** Two models between which a slot is swapped: `one` and `two`. */
export async function writeTwoModels(modelsDir: string): Promise<void> {
  await writeShape(join(modelsDir, "one.gguf"), small);
  await writeShape(join(modelsDir, "two.gguf"), { ...small, layers: 5 });
}

/** The manifest of the slot that holds them. */
export function keepingSlot(keep: string, more = ""): string {
  return `${more}\n[model]\ndefault = "one"\ncontext_size = 8192\nprompt_cache_bytes = 0\n${keep}`;
}

export const longPrompt = Array.from({ length: 90 }, (_, index) => `line ${index} of a long text.`).join(" ");

/** Milliseconds to the first token of the long prompt, and how many of its tokens the engine had kept. */
export async function firstToken(berth: RunningBerth): Promise<{ ms: number; cached: number; tokens: number }> {
  const messages = [{ role: "user", content: longPrompt }];
  const began = performance.now();
  const streamed = await post(berth.url, "/v1/chat/completions", {
    model: "primary",
    messages,
    max_tokens: 1,
    stream: true,
    stream_options: { include_usage: true },
  });
  assert.equal(streamed.status, 200);
  const text = await streamed.text();
  const ms = performance.now() - began;
  const usage = text
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => record(JSON.parse(line.slice(6)))["usage"])
    .find((found) => typeof found === "object" && found !== null);
  const { prompt_tokens: tokens, prompt_tokens_details: details } = record(usage);
  return { ms, cached: Number(record(details)["cached_tokens"]), tokens: Number(tokens) };
}

/** Resolves once the other model is loaded. */
export async function swap(berth: RunningBerth, model: string): Promise<void> {
  const answer = await post(berth.url, "/api/slots/primary/swap?wait=ready", { model });
  assert.equal(answer.status, 202, await answer.text());
  await until(`${model} is loaded`, async () => {
    const slot = await berth.slot("primary");
    return slot["model"] === model && slot["state"] !== "unloading" && slot["state"] !== "starting" ? slot : undefined;
  });
}

/** The saved files of the slot's only engine. */
export async function contextFilesOf(berth: RunningBerth): Promise<readonly string[]> {
  const names: readonly string[] = await readdir(join(berth.stateDir, "contexts/primary/main")).catch(() => []);
  return names.toSorted();
}
