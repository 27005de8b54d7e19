import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { isRecord } from "../../src/cli/output.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";

const double = fileURLToPath(new URL("../doubles/llama-server.ts", import.meta.url));

/** A whole Berth over a `llama-server` that speaks as one did on an H100. */
async function start(slots: Readonly<Record<string, string>>): Promise<RunningBerth> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await tempDir());
  const program = join(directory.path, "llama-server");
  await writeFile(program, `#!/bin/sh\nexec ${process.execPath} ${double} "$@"\n`, { mode: 0o755 });
  const berth = await startBerth({
    env: { SVC_LLAMA_SERVER: program },
    async prepare({ configDir, modelsDir }) {
      for (const ref of ["part", "whole", "too-large"]) await writeTinyModel(join(modelsDir, `${ref}.gguf`));
      for (const [name, text] of Object.entries(slots)) await writeFile(join(configDir, `slots/${name}.toml`), text);
    },
  });
  const owned = stack.move();
  return {
    ...berth,
    [Symbol.asyncDispose]: async () => {
      await berth[Symbol.asyncDispose]();
      await owned.disposeAsync();
    },
  };
}

const logOf = async (berth: RunningBerth, slot: string): Promise<string> =>
  await readFile(join(berth.stateDir, `logs/${slot}.main.log`), "utf8");
const manifest = (backend: string, model: string): string => `backend = "${backend}"\n[model]\ndefault = "${model}"\n`;

/** A condition as status/reason; undefined where there is none. */
function condition(slot: Record<string, unknown>, type: string): string | undefined {
  const conditions = Array.isArray(slot["conditions"]) ? slot["conditions"].filter(isRecord) : [];
  const found = conditions.find((each) => each["type"] === type);
  return found === undefined ? undefined : `${String(found["status"])}/${String(found["reason"])}`;
}

it("slots on a GPU report by their engines' words where they compute, as an H100's were", async (t) => {
  await using berth = await start({
    big: manifest("cuda", "part"),
    small: manifest("cuda", "whole"),
    calm: manifest("cpu", "whole"),
  });

  await t.test("layers on the host, in the API and for people", async () => {
    const big = await berth.state("big", "ready", "idle");
    const { compute } = big;
    assert.ok(isRecord(compute));
    assert.deepEqual([compute["devices"], compute["layers_offloaded"], compute["layers_total"]], [["CUDA0"], 29, 33]);
    assert.equal(condition(big, "Degraded"), "True/NotOnGpu");
    const { stdout } = await runBerth(["slot", "show", "big"], { SVC_URL: berth.url });
    assert.match(stdout, /^computes on: +CUDA0, 29 of 33 layers on a GPU$/m);
    assert.match(stdout, /^ {2}Degraded +True +NotOnGpu +the spec asks for cuda, and 29 of 33 layers are on a GPU;/m);
    const small = await berth.state("small", "ready", "idle");
    assert.equal(condition(small, "Degraded"), undefined);
    assert.match(await logOf(berth, "small"), /"--fit","off","--cache-ram","\d+","--log-verbosity","4"/);
  });

  await t.test('backend = "cpu": the engine sees no GPU', async () => {
    const calm = await berth.state("calm", "ready", "idle");
    assert.match(await logOf(berth, "calm"), /"gpus":""/);
    assert.deepEqual(calm["compute"], { devices: [], layers_offloaded: 0, layers_total: 33, buffers: [] });
    assert.deepEqual([calm["backend"], condition(calm, "Degraded")], ["cpu", undefined]);
  });
});

it("a slot that needs more memory than its GPU has says so by the engine's reason, and does not load its weights again", async () => {
  await using berth = await start({ heavy: manifest("cuda", "too-large") });
  const heavy = await berth.state("heavy", "error");
  assert.equal(condition(heavy, "Stalled"), "True/OutOfMemory");
  const error = heavy["last_error"];
  assert.match(
    String(isRecord(error) && error["message"]),
    /allocating 81920\.00 MiB on device 0: cudaMalloc failed: out of memory/,
  );
  assert.equal(heavy["next_retry_at"], null);
  assert.equal((await logOf(berth, "heavy")).split("started with").length - 1, 1);
});
