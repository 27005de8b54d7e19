import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { chat, writeSlot } from "../paths/fixture.ts";
import { startBerth } from "../support/berth.ts";
import { list, record } from "../support/openai.ts";
import { until } from "../support/until.ts";

it("a group reports the cost of coming back: the time of the last load, and the tokens in the engine's cache", async () => {
  await using berth = await startBerth({
    prepare: async (directories) => {
      await mkdir(join(directories.configDir, "groups"));
      await writeFile(join(directories.configDir, "groups/gpu.toml"), "min_residency_seconds = 0\n");
      for (const slot of ["one", "two"]) {
        await writeTinyModel(join(directories.modelsDir, `model-${slot}.gguf`));
        const spec = `load = "onDemand"\ngroup = "gpu"\n[model]\ndefault = "model-${slot}"\n`;
        await writeSlot(directories, slot, spec);
      }
    },
  });
  assert.equal((await chat(berth, "one"))[0], 200);
  const cost = await until("the operator has read the tokens", async () => {
    const members = list(record(await berth.get("/api/groups/gpu"))["members"]);
    const found = members.find(({ slot }) => slot === "one")?.["cost"];
    return typeof record(found)["context_tokens"] === "number" && record(found);
  });
  const { load_seconds: load, context_tokens: tokens, context_seconds: read } = cost;
  assert.ok(Number(load) > 0, `loaded in ${String(load)} s`);
  assert.ok(Number(tokens) > 8, `${String(tokens)} tokens`);
  assert.equal(read, Number(tokens) / 500);
  assert.equal((await chat(berth, "two"))[0], 200);
  const left = (await berth.slot("one")).transitions?.findLast(({ reason }) => reason === "Preempted");
  const words = new RegExp(`to load, \\d+ s to read ${String(tokens)} tokens of its cache again$`);
  assert.match(String(left?.message), words);
});
