import assert from "node:assert/strict";
import { test } from "node:test";
import { llama } from "../../src/engines/llama.ts";
import { serverFacts } from "../../src/engines/server-facts.ts";
import { runningIn } from "../doubles/runtime-kinds.ts";
import { input, model } from "../engines/fixture.ts";
import { perToken } from "../support/context-cost.ts";
import { primary, told } from "./fixture.ts";

test("slot show prints every setting that the manifest leaves open, with its value and why", async () => {
  const gibibyte = 1024 ** 3;
  const memory = { hostBytes: 64 * gibibyte, gpuBytes: 24 * gibibyte };
  const record = model({ contextLength: 131_072, contextCost: perToken(131_072), sizeBytes: 5_000_000_000 });
  const decisions = llama.derived(
    input({
      spec: { backend: "cuda" },
      model: record,
      host: { llamaServer: "/opt/llama-server", server: serverFacts("--ctx-size", undefined), embedded: undefined },
      placement: { ...runningIn("process"), backend: "cuda", images: {}, lock: {}, memory },
    }),
  );
  const { stdout } = await told({ "/api/slots/primary": { ...primary, decisions } }, "slot show primary");
  const lines = stdout.split("\n");
  const from = lines.indexOf("decided:") + 1;
  assert.deepEqual(
    lines.slice(from, from + 6).map((line) => line.trim().replace(/ +/g, " ")),
    [
      "contextSize 32768 of the model's 131072: within a quarter of the GPU's memory",
      "promptCacheBytes 1073741824 what is enough for a few long prompts",
      "gpuLayers all the backend is cuda, and what does not fit is refused: model.spill",
      "parallel 1 each further place takes a context of its own: model.parallel",
      "flashAttention auto the engine uses it where its backend can",
      "cacheTypes f16 the engine's own, without loss: -ctk and -ctv in args name smaller ones",
    ],
  );
});
