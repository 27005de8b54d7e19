import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { runBerth } from "../support/command.ts";
import { ask, post } from "../support/openai.ts";
import { writeShape } from "../support/shaped-model.ts";
import { shapes } from "../support/shapes.ts";
import { until } from "../support/until.ts";
import { processOf, startWithLlamaServer } from "./fixture.ts";

const mebibyte = 1024 ** 2;
/** Two small engines fit, or the large one alone. */
const budgetBytes = 460 * mebibyte;
const small = { ...shapes.dense, layers: 4, vocabulary: 4096, context: 8192 };

it("a slot of a group is swapped to a larger model by a person and by a request: the idle slot beside it leaves first", async (test) => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await mkdir(join(configDir, "groups"));
    await writeFile(
      join(configDir, "groups/gpu.toml"),
      `min_residency_seconds = 0\nmax_wait_seconds = 5\n[budget]\nmemory_bytes = ${budgetBytes}\n`,
    );
    await writeShape(join(modelsDir, "small.gguf"), small);
    await writeShape(join(modelsDir, "large.gguf"), { ...shapes.dense, layers: 14 });
    const head = 'group = "gpu"\nload = "onDemand"\n[model]\ncontext_size = 8192\nprompt_cache_bytes = 0\n';
    await writeFile(join(configDir, "slots/one.toml"), `${head}default = "small"\n`);
    await writeFile(join(configDir, "slots/two.toml"), `${head}default = "small"\non_request = ["large"]\n`);
  });
  const chat = async (model: string): Promise<void> => {
    await ask(berth.url, "/v1/chat/completions", {
      model,
      messages: [{ role: "user", content: "hello" }],
      max_tokens: 4,
    });
  };
  const needOf = async (slot: string): Promise<number> => (await berth.slot(slot)).fit?.need_bytes ?? Number.NaN;
  const beside = async (): Promise<string> => {
    await chat("one");
    await chat("two");
    const both = await Promise.all(["one", "two"].map(async (name) => (await berth.slot(name))["state"]));
    return both.join(" ");
  };
  const left = async (slot: string): Promise<string> => {
    const { transitions } = await berth.slot(slot);
    return String(transitions?.findLast(({ reason }) => reason === "Preempted")?.message);
  };

  assert.match(await beside(), /^(ready|idle|serving) (ready|idle|serving)$/);
  const before = processOf(await berth.slot("one")).pid;
  const swapped = await runBerth(["slot", "swap", "one", "large", "--wait"], { SVC_URL: berth.url });
  assert.equal(swapped.code, 0, swapped.stderr);
  const large = await berth.slot("one");
  assert.equal(large["model"], "large");
  assert.notEqual(processOf(large).pid, before);
  assert.equal((await berth.slot("two"))["state"], "offline");
  assert.match(await left("two"), /^slot one waits for its place in group gpu/);
  const need = await needOf("one");
  assert.ok(need > budgetBytes / 2 && need < budgetBytes, `${need}`);
  test.diagnostic(`the large engine needs ${Math.round(need / mebibyte)} MiB of ${budgetBytes / mebibyte} MiB`);

  await post(berth.url, "/api/slots/one/swap?wait=ready", { reset: true });
  assert.match(await beside(), /^(ready|idle|serving) (ready|idle|serving)$/);
  // The request names the model, and slot two alone lists it.
  await chat("large");
  assert.equal((await berth.slot("two"))["model"], "large");
  await until("the other slot is gone", async () =>
    (await berth.slot("one"))["state"] === "offline" ? true : undefined,
  );
  assert.match(await left("one"), /^slot two waits for its place in group gpu/);
});
