import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { conditionOf } from "../../src/cli/slot-words.ts";
import { list, record } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { writeShape } from "../support/shaped-model.ts";
import { shapes } from "../support/shapes.ts";
import { startWithLlamaServer } from "./fixture.ts";

const mebibyte = 1024 ** 2;

test("a slot's memory comes from the header, the engine's allocator, then its process; what no machine has is refused before", async () => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeShape(join(modelsDir, "dense.gguf"), shapes.dense);
    const slot = (more: string): string => `[model]\ndefault = "dense"\nprompt_cache_bytes = 0\n${more}\n`;
    await writeFile(join(configDir, "slots/primary.toml"), slot("context_size = 16384"));
    await writeFile(join(configDir, "slots/vast.toml"), slot("context_size = 16000000\nparallel = 8"));
  });
  await berth.state("primary", "ready", "idle");
  const fit = await until("every stage has a figure", async () => {
    const found = record((await berth.slot("primary"))["fit"]);
    return list(found["stages"]).length === 3 && found;
  });
  const [header, engine, measured] = list(fit["stages"]);
  assert.deepEqual([header?.["stage"], engine?.["stage"], measured?.["stage"]], ["header", "engine", "measured"]);
  // 204 MiB of weights, 192 MiB of context, and work.
  for (const figure of [header, engine]) {
    const [bytes, error] = [Number(figure?.["need_bytes"]), Number(figure?.["error_ratio"] ?? Number.NaN)];
    assert.ok(bytes > 430 * mebibyte && bytes < 500 * mebibyte, `${bytes}`);
    assert.ok(Math.abs(error) < 0.2, `${error}`);
  }
  assert.deepEqual([fit["stage"], fit["device"], measured?.["error_ratio"]], ["measured", "host", null]);
  assert.ok(Number(fit["budget_bytes"]) > Number(fit["need_bytes"]));
  const metrics = await (await fetch(`${berth.operatorUrl}/metrics`)).text();
  for (const stage of ["header", "engine"])
    assert.match(metrics, new RegExp(`^berth_fit_error_ratio\\{slot="primary",stage="${stage}"\\} -?0\\.\\d+$`, "m"));

  const vast = await berth.state("vast", "error");
  const stalled = conditionOf(vast, "Stalled");
  assert.equal(stalled?.reason, "DoesNotFit");
  assert.match(
    String(stalled.message),
    /^needs 1\.\d TiB \(weights 204 MiB, context 1\.4 TiB, .* on host, which has .*; it fits with context_size \d+$/,
  );
  assert.deepEqual([vast["restarts"], vast["processes"]], [0, []], "nothing was started");
});
