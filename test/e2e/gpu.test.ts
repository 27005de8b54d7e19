import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { conditionOf } from "../../src/cli/slot-words.ts";
import { startBerth, type Slot } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";

const double = fileURLToPath(new URL("../doubles/llama-server.ts", import.meta.url));

const manifest = (backend: string, model: string): string => `backend = "${backend}"\n[model]\ndefault = "${model}"\n`;
const slots = {
  big: manifest("cuda", "part"),
  small: manifest("cuda", "whole"),
  calm: manifest("cpu", "whole"),
} as const;

/** A condition as status/reason; undefined where there is none. */
function condition(slot: Slot, type: string): string | undefined {
  const found = conditionOf(slot, type);
  return found && `${found.status}/${found.reason}`;
}

it("slots on a GPU report by the words of a llama-server, as an H100's were, where they compute and what they lack", async () => {
  await using directory = await tempDir();
  const program = join(directory.path, "llama-server");
  await writeFile(program, `#!/bin/sh\nexec ${process.execPath} ${double} "$@"\n`, { mode: 0o755 });
  await using berth = await startBerth({
    env: { SVC_LLAMA_SERVER: program },
    async prepare({ configDir, modelsDir }) {
      for (const ref of ["part", "whole", "too-large"]) await writeTinyModel(join(modelsDir, `${ref}.gguf`));
      for (const [name, text] of Object.entries(slots)) await writeFile(join(configDir, `slots/${name}.toml`), text);
    },
  });
  const logOf = async (slot: string): Promise<string> =>
    await readFile(join(berth.stateDir, `logs/${slot}.main.log`), "utf8");

  const big = await berth.state("big", "ready", "idle");
  const { devices, layers_offloaded: layers, layers_total: all } = big.compute ?? {};
  assert.deepEqual([devices, layers, all, condition(big, "Degraded")], [["CUDA0"], 29, 33, "True/NotOnGpu"]);
  const { stdout } = await runBerth(["slot", "show", "big"], { SVC_URL: berth.url });
  assert.match(stdout, /^computes on: +CUDA0, 29 of 33 layers on a GPU$/m);
  assert.match(stdout, /^ {2}Degraded +True +NotOnGpu +the spec asks for cuda, and 29 of 33 layers are on a GPU;/m);

  assert.equal(condition(await berth.state("small", "ready", "idle"), "Degraded"), undefined);
  assert.match(await logOf("small"), /"--fit","off","--cache-ram","\d+","--log-verbosity","4"/);

  const calm = await berth.state("calm", "ready", "idle");
  assert.match(await logOf("calm"), /"gpus":""/, "the engine sees no GPU");
  assert.deepEqual(calm["compute"], { devices: [], layers_offloaded: 0, layers_total: 33, buffers: [] });
  assert.deepEqual([calm["backend"], condition(calm, "Degraded")], ["cpu", undefined]);

  // Once the others are loaded: a slot that becomes ready may have freed memory, for which this one is loaded again.
  await writeFile(join(berth.configDir, "slots/heavy.toml"), manifest("cuda", "too-large"));
  const heavy = await berth.state("heavy", "error");
  assert.match(
    String(heavy.last_error?.message),
    /allocating 81920\.00 MiB on device 0: cudaMalloc failed: out of memory/,
  );
  assert.deepEqual([condition(heavy, "Stalled"), heavy["next_retry_at"]], ["True/OutOfMemory", null]);
  assert.equal((await logOf("heavy")).split("started with").length - 1, 1, "its weights are not loaded again");
});
