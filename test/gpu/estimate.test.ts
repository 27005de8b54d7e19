import assert from "node:assert/strict";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { processOf } from "../llama-server/fixture.ts";
import { ask } from "../support/openai.ts";
import { holders, mebibyte, readCard } from "./card.ts";
import { chat, deviceBytes, manifest, measured, sharedModels, stagesOf, startOnGpu, type Manifest } from "./fixture.ts";

const quantised = 'args = ["--flash-attn", "on", "--cache-type-k", "q8_0", "--cache-type-v", "q8_0"]';
const plain = "context_size = 8192";
/** More tokens than a batch has (512), and fewer than the smallest context of the table. */
const longText = Array.from({ length: 45 }, (_, index) => `line ${index} is read`).join(" ");

/** Each load with what llama.cpp is asked for. */
const loads: Readonly<Record<string, Manifest>> = {
  "one-place": { model: "large", more: plain },
  "four-places": { model: "large", more: `${plain}\nparallel = 4` },
  "quantised-cache": { model: "large", top: quantised, more: plain },
  "one-cache": { model: "large", top: 'args = ["--kv-unified"]', more: `${plain}\nparallel = 4` },
  "half-the-layers": { model: "large", more: `${plain}\ngpu_layers = 16` },
  "no-flash": { model: "large", top: 'args = ["--flash-attn", "off"]', more: plain },
  "derived-context": { model: "small" },
  "many-places": { model: "small", more: "context_size = 1024\nparallel = 32" },
  "half-precision": { model: "small-f16", more: plain },
  embeddings: { model: "embedder", top: 'capabilities = ["embeddings"]', more: "context_size = 4096" },
  window: { model: "window", more: "context_size = 16384\nparallel = 2" },
  experts: { model: "experts", more: plain },
  "eight-bits": { model: "large-q8", more: plain },
};

it("the memory that the header and the engine's allocator tell before a load is what it then takes", async (test) => {
  const models = await sharedModels();
  await models.write("large", "small", "small-f16", "window", "experts", "embedder", "large-q8");
  await using berth = await startOnGpu(models, {});
  const wrong: string[] = [];
  const told = (what: readonly string[]): string =>
    what.map((cell, index) => (index === 0 ? cell.padEnd(16) : cell.padStart(20))).join("");
  test.diagnostic(told(["load, in MiB", "header", "engine", "measured", "nvidia-smi", "ready after"]));
  const before = (await readCard()).usedBytes;
  for (const [name, load] of Object.entries(loads)) {
    const path = join(berth.configDir, "slots", `${name}.toml`);
    try {
      await writeFile(path, manifest(load));
      const slot = await measured(berth, name);
      if (name === "embeddings") await ask(berth.url, "/v1/embeddings", { model: name, input: [longText, longText] });
      else await chat(berth, name, 8, longText);
      const now = (await holders()).get(processOf(slot).pid) ?? Number.NaN;
      const stages = stagesOf(slot);
      const measuredBytes = stages.get("measured") ?? Number.NaN;
      // A long prompt makes the driver take more for cuBLAS (F16 weights, experts, no flash attention): counted beforehand.
      const taken = now;
      const against = (stage: string): string => {
        const bytes = stages.get(stage);
        return bytes === undefined ? "none" : `${mib(bytes)} (${percent(bytes / taken - 1)})`;
      };
      test.diagnostic(
        told([
          name,
          against("header"),
          against("engine"),
          mib(measuredBytes),
          mib(now),
          `${Number(slot["last_load_seconds"]).toFixed(1)} s`,
        ]),
      );
      const [header, engine] = [stages.get("header"), stages.get("engine")];
      const ratio = (header ?? Number.NaN) / taken - 1;
      if (!(ratio <= 0.1 && ratio >= -0.03)) wrong.push(`${name}: header ${percent(ratio)}`);
      const engineRatio = (engine ?? Number.NaN) / taken - 1;
      // The allocator's program has no shared cache of a model with windows; no load of the table is such a one.
      if (!(Math.abs(engineRatio) <= 0.03)) wrong.push(`${name}: engine ${percent(engineRatio)}`);
      if (!(Math.abs(measuredBytes - now) <= Math.max(128 * mebibyte, now * 0.05)))
        wrong.push(`${name}: measured ${mib(measuredBytes)}, nvidia-smi ${mib(now)}`);
      if (!(Math.abs((deviceBytes(slot) ?? Number.NaN) - now) <= Math.max(128 * mebibyte, now * 0.05)))
        wrong.push(`${name}: memory of its status ${mib(deviceBytes(slot) ?? Number.NaN)}, nvidia-smi ${mib(now)}`);
    } catch (error) {
      wrong.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
    await rm(path, { force: true });
  }
  test.diagnostic(`the card had ${mib(before)} MiB in use before`);
  assert.deepEqual(wrong, []);
});

function mib(bytes: number): string {
  return String(Math.round(bytes / mebibyte));
}

function percent(ratio: number): string {
  return `${ratio < 0 ? "" : "+"}${(ratio * 100).toFixed(1)} %`;
}
