import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { ask } from "../support/openai.ts";
import { processOf, startWithLlamaServer } from "./fixture.ts";
import { until } from "../support/until.ts";

test("while llama-server loads it answers 503, and the slot is not ready", async () => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    // Wide enough that reading it takes a while: what is not written costs no disk.
    await writeTinyModel(join(modelsDir, "slow.gguf"), { hollow: 400_000 });
    await writeFile(
      join(configDir, "slots/primary.toml"),
      'args = ["--load-mode", "none"]\n[model]\ndefault = "slow"\n',
    );
  });
  const seen = await until("the engine says that it loads", async () => {
    const slot = await berth.slot("primary");
    if (!Array.isArray(slot["processes"]) || slot["processes"].length === 0) return undefined;
    const response = await fetch(`${processOf(slot).endpoint}/health`);
    return { status: response.status, state: String((await berth.slot("primary"))["state"]) };
  });
  assert.equal(seen.status, 503);
  assert.ok(["starting", "warming"].includes(seen.state), seen.state);
  await berth.state("primary", "ready");
  await ask(berth.url, "/v1/chat/completions", {
    model: "primary",
    messages: [{ role: "user", content: "x" }],
    max_tokens: 1,
  });
});
