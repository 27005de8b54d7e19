import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { embeddedImage } from "../../hack/images/embedded.ts";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { isRecord } from "../../src/cli/output.ts";
import { startBerth } from "../support/berth.ts";
import { readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";
import { testSocket } from "./docker-site.ts";
import { importLlamaServer } from "./images.ts";

const limitMs = 180_000;

/** A chat slot and an embedding slot on that image, both asked through the gateway. */
async function serves(image: string): Promise<void> {
  await using running = await startBerth({
    env: { SVC_RUNTIME: "docker", SVC_LLAMA_IMAGE: image, DOCKER_HOST: `unix://${testSocket()}` },
    prepare: async ({ configDir, modelsDir }) => {
      await writeTinyModel(join(modelsDir, "tiny.gguf"), { embedding: false });
      await writeTinyModel(join(modelsDir, "tiny-embed.gguf"), { embedding: true });
      await writeFile(join(configDir, "slots/primary.toml"), '[model]\ndefault = "tiny"\n');
      await writeFile(join(configDir, "slots/embed.toml"), '[model]\ndefault = "tiny-embed"\n');
    },
  });
  const ask = async (path: string, body: object): Promise<Record<string, unknown>> => {
    const response = await fetch(`${running.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const answer: unknown = await response.json();
    assert.equal(response.status, 200, JSON.stringify(answer));
    assert.ok(isRecord(answer));
    return answer;
  };
  for (const slot of ["primary", "embed"]) {
    await until(
      `${slot} is ready`,
      async () => (await readPublished(running.stateDir, slot))?.status.state === "ready",
      limitMs,
    );
    assert.ok((await readPublished(running.stateDir, slot))?.status.image?.startsWith(image.split(":")[0] ?? "never"));
  }
  const chat = await ask("/v1/chat/completions", {
    model: "primary",
    messages: [{ role: "user", content: "hi" }],
    max_tokens: 4,
  });
  assert.ok(JSON.stringify(chat).includes('"content"'));
  const embeddings = await ask("/v1/embeddings", { model: "embed", input: ["hi"] });
  assert.ok(JSON.stringify(embeddings).includes('"embedding":['));
}

test("the embedded engine's own image serves chats and embeddings", { timeout: 600_000 }, async () => {
  await serves(await embeddedImage(testSocket()));
});

test("a real llama-server in an image of its own serves chats and embeddings", { timeout: 600_000 }, async () => {
  await serves(await importLlamaServer(testSocket(), "1"));
});
