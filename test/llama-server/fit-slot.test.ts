import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isRecord } from "../../src/cli/output.ts";
import { until } from "../support/until.ts";
import { writeShape } from "../support/shaped-model.ts";
import { shapes } from "../support/shapes.ts";
import { startWithLlamaServer } from "./fixture.ts";

const mebibyte = 1024 ** 2;

interface Figure {
  readonly stage: unknown;
  readonly bytes: number;
  readonly error: unknown;
}

function stagesOf(slot: Record<string, unknown>): readonly Figure[] {
  const fit = isRecord(slot["fit"]) ? slot["fit"] : {};
  const stages = Array.isArray(fit["stages"]) ? fit["stages"].filter(isRecord) : [];
  return stages.map(({ stage, need_bytes: bytes, error_ratio: error }) => ({ stage, bytes: Number(bytes), error }));
}

test("a slot's memory comes from the header, the engine's allocator, then its process, and the next start uses that", async () => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeShape(join(modelsDir, "dense.gguf"), shapes.dense);
    const text = '[model]\ndefault = "dense"\ncontext_size = 16384\nprompt_cache_bytes = 0\n';
    await writeFile(join(configDir, "slots/primary.toml"), text);
  });
  await berth.state("primary", "ready");
  const slot = await until("every stage has a figure", async () => {
    const found = await berth.slot("primary");
    return stagesOf(found).length === 3 ? found : undefined;
  });
  const [header, engine, measured] = stagesOf(slot);
  assert.deepEqual([header?.stage, engine?.stage, measured?.stage], ["header", "engine", "measured"]);
  // 204 MiB of weights, 192 MiB of context, and work.
  for (const figure of [header, engine]) {
    assert.ok(
      figure !== undefined && figure.bytes > 430 * mebibyte && figure.bytes < 500 * mebibyte,
      `${figure?.bytes}`,
    );
    assert.ok(typeof figure.error === "number" && Math.abs(figure.error) < 0.2, String(figure.error));
  }
  const fit = isRecord(slot["fit"]) ? slot["fit"] : {};
  assert.deepEqual([fit["stage"], fit["device"], measured?.error], ["measured", "host", null]);
  assert.ok(Number(fit["budget_bytes"]) > Number(fit["need_bytes"]));
  const metrics = await (await fetch(`${berth.operatorUrl}/metrics`)).text();
  assert.match(metrics, /^berth_fit_error_ratio\{slot="primary",stage="header"\} -?0\.\d+$/m);
  assert.match(metrics, /^berth_fit_error_ratio\{slot="primary",stage="engine"\} -?0\.\d+$/m);
});

test("a context that no machine has the memory for is refused before anything is loaded, with the sum and what would fit", async () => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeShape(join(modelsDir, "dense.gguf"), shapes.dense);
    const text = '[model]\ndefault = "dense"\ncontext_size = 16000000\nparallel = 8\nprompt_cache_bytes = 0\n';
    await writeFile(join(configDir, "slots/primary.toml"), text);
  });
  await berth.state("primary", "error");
  const slot = await berth.slot("primary");
  const conditions = Array.isArray(slot["conditions"]) ? slot["conditions"].filter(isRecord) : [];
  const stalled = conditions.find(({ type }) => type === "Stalled");
  assert.equal(stalled?.["reason"], "DoesNotFit");
  assert.match(
    String(stalled["message"]),
    /^needs 1\.\d TiB \(weights 204 MiB, context 1\.4 TiB, .* on host, which has .*; it fits with context_size \d+$/,
  );
  assert.deepEqual([slot["restarts"], slot["processes"]], [0, []], "nothing was started");
});
