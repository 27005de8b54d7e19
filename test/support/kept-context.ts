import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { RunningBerth } from "./berth.ts";
import { events, post, record } from "./openai.ts";
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
export function keepingSlot(keep: string): string {
  return `[model]\ndefault = "one"\ncontext_size = 8192\nprompt_cache_bytes = 0\n${keep}`;
}

/** Some 1,400 tokens. */
export const longPrompt = Array.from({ length: 40 }, (_, index) => `line ${index} of a long text.`).join(" ");

/** The line of the manifest of a slot that keeps its context. */
export const keepContext = "keep_context = {}\n";

interface FirstToken {
  readonly cached: number;
  readonly tokens: number;
}

/** The number of tokens of the long prompt, and how many of them the engine had kept. */
export async function firstToken(berth: RunningBerth): Promise<FirstToken> {
  const messages = [{ role: "user", content: longPrompt }];
  const streamed = await post(berth.url, "/v1/chat/completions", {
    model: "primary",
    messages,
    max_tokens: 1,
    stream: true,
    stream_options: { include_usage: true },
  });
  assert.equal(streamed.status, 200);
  const { chunks } = await events(streamed);
  const usage = chunks.map((chunk) => chunk["usage"]).find((found) => typeof found === "object" && found !== null);
  const { prompt_tokens: tokens, prompt_tokens_details: details } = record(usage);
  return { cached: Number(record(details)["cached_tokens"]), tokens: Number(tokens) };
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

/**
 * After a swap to the other model and back an engine with `keepContext` does not read the long prompt again, and another
 * engine does. `start` starts a Berth with a slot of the two models and that line.
 */
export async function testSwapAndBack(
  test: TestContext,
  start: (keep: string) => Promise<RunningBerth>,
): Promise<void> {
  const without = await swapAndBack(start, "");
  const kept = await swapAndBack(start, keepContext);
  test.diagnostic(`${kept.cached} of ${kept.tokens} tokens kept`);
  assert.ok(without.cached < 64, String(without.cached));
  assert.ok(kept.cached >= kept.tokens - 64, `${kept.cached} of ${kept.tokens}`);
}

async function swapAndBack(start: (keep: string) => Promise<RunningBerth>, keep: string): Promise<FirstToken> {
  await using berth = await start(keep);
  await berth.state("primary", "ready", "idle");
  const cold = await firstToken(berth);
  assert.ok(cold.cached < 64, "no more than the warm-up had");
  await swap(berth, "two");
  assert.equal((await contextFilesOf(berth)).length, keep === "" ? 0 : 1);
  await swap(berth, "one");
  const again = await firstToken(berth);
  if (keep === "") return again;
  const { context } = await berth.slot("primary");
  assert.equal(context?.result, "restored", JSON.stringify(context));
  assert.ok(Number(context.tokens) >= cold.tokens);
  assert.deepEqual(await contextFilesOf(berth), [], "it is used once");
  return again;
}
