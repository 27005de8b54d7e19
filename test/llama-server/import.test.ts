import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { runBerth } from "../support/command.ts";
import { ask } from "../support/openai.ts";
import { llamaServer, startWithLlamaServer } from "./fixture.ts";

test("an imported llama-swap file is served under its own names by the real llama-server", async () => {
  const swap = (modelsDir: string): string => `healthCheckTimeout: 60
macros:
  server: ${llamaServer()} --port \${PORT} -c 512
models:
  "tiny/Coder:1":
    cmd: \${server} -m ${modelsDir}/coder.gguf --parallel 2 --temp 0
    aliases: [gpt-4o]
  writer:
    cmd: \${server} -m ${modelsDir}/elsewhere/writer-model.bin --no-warmup
    ttl: 60
    filters: { setParams: { max_tokens: 3 } }
`;
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeTinyModel(join(modelsDir, "coder.gguf"));
    await writeTinyModel(join(modelsDir, "elsewhere/writer-model.bin"));
    await writeFile(join(modelsDir, "swap.yaml"), swap(modelsDir));
    const env = { HOME: modelsDir, SVC_CONFIG_DIR: configDir, SVC_MODELS_DIR: modelsDir };
    const words = ["config", "import", "llama-swap", join(modelsDir, "swap.yaml"), "--yes"];
    const { code, stdout, stderr } = await runBerth(words, env);
    assert.deepEqual([code, stderr], [0, ""], stdout);
    assert.match(stdout, /wrote 4 files/);
  });
  for (const model of ["tiny/Coder:1", "gpt-4o", "writer", "tiny/Coder:1"]) {
    const chat = { model, messages: [{ role: "user", content: "hello" }], max_tokens: 4 };
    const answer = await ask(berth.url, "/v1/chat/completions", chat);
    assert.equal(answer["object"], "chat.completion");
    assert.equal(answer["model"], model);
  }
  const chat = { model: "writer", messages: [{ role: "user", content: "hello" }], max_tokens: 40 };
  const { usage } = await ask(berth.url, "/v1/chat/completions", chat);
  assert.ok(
    typeof usage === "object" && usage !== null && "completion_tokens" in usage && Number(usage.completion_tokens) <= 3,
  );
});
