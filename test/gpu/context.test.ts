import assert from "node:assert/strict";
import { it } from "node:test";
import type { RunningBerth } from "../support/berth.ts";
import { contextFilesOf, swap } from "../support/kept-context.ts";
import { post, record } from "../support/openai.ts";
import { gibibyte } from "./card.ts";
import { ready, sharedModels, startOnGpu, type Models } from "./fixture.ts";

interface FirstToken {
  readonly ms: number;
  readonly tokens: number;
  readonly cached: number;
}

/** Reads a prompt of so many lines, each of some 55 tokens, and gives the time to the first token of its answer. */
async function firstToken(berth: RunningBerth, lines: number): Promise<FirstToken> {
  const content = Array.from({ length: lines }, (_, index) => `line ${index} of a long text that is read.`).join(" ");
  const began = performance.now();
  const response = await post(berth.url, "/v1/chat/completions", {
    model: "primary",
    messages: [{ role: "user", content }],
    max_tokens: 1,
    ignore_eos: true,
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  const ms = performance.now() - began;
  const usage = record(record(JSON.parse(text))["usage"]);
  const cached = Number(record(usage["prompt_tokens_details"])["cached_tokens"]);
  return { ms, tokens: Number(usage["prompt_tokens"]), cached };
}

async function swapAndBack(models: Models, lines: number, keep: string): Promise<FirstToken> {
  await using berth = await startOnGpu(models, {
    primary: { model: "large", more: `context_size = 16384\n${keep}` },
  });
  await ready(berth, "primary");
  const cold = await firstToken(berth, lines);
  assert.ok(cold.cached < 64, `${cold.cached}`);
  await swap(berth, "small");
  assert.equal((await contextFilesOf(berth)).length, keep === "" ? 0 : 1);
  await swap(berth, "large");
  const again = await firstToken(berth, lines);
  if (keep !== "") assert.equal((await berth.slot("primary")).context?.result, "restored");
  return again;
}

it("a context that is kept on the disk spares the GPU the reading of a long prompt after a swap and back", async (test) => {
  const models = await sharedModels();
  await models.write("large", "small");
  const lines = models.card.usableBytes < 24 * gibibyte ? 12 : 200;
  const without = await swapAndBack(models, lines, "");
  const kept = await swapAndBack(models, lines, "keep_context = { max_bytes = 8_000_000_000 }");
  test.diagnostic(
    `first token of ${kept.tokens} tokens after a swap and back: ${Math.round(without.ms)} ms without, ` +
      `${Math.round(kept.ms)} ms with keepContext (${kept.cached} tokens kept)`,
  );
  assert.ok(without.cached < 64, `${without.cached}`);
  assert.ok(kept.cached >= kept.tokens - 64, `${kept.cached} of ${kept.tokens}`);
  assert.ok(kept.ms * 3 <= without.ms, `${kept.ms} ms, ${without.ms} ms without`);
});
