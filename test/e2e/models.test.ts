import assert from "node:assert/strict";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { conditionOf } from "../../src/cli/slot-words.ts";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { chat } from "../paths/fixture.ts";
import { startBerth } from "../support/berth.ts";
import { envelopeOf } from "../support/envelope.ts";
import { post } from "../support/openai.ts";

test("a broken model file is reported before an engine is started on it, and served once it is mended", async (t) => {
  const slots = { page: "page", cut: "cut", part: "big", far: "far", folder: "folder", odd: "odd", gone: "gone" };
  await using berth = await startBerth({
    prepare: async ({ configDir, modelsDir }) => {
      await writeFile(join(modelsDir, "page.gguf"), "<!doctype html><title>404: there is no such file</title>");
      await writeFile(join(modelsDir, "cut.gguf"), await tinyBytes(modelsDir, 300_000));
      await writeTinyModel(join(modelsDir, "big-00001-of-00002.gguf"));
      await mkdir(join(configDir, "models"));
      await writeFile(join(configDir, "models/far.yaml"), "source: flm://far:1b\n");
      await writeFile(join(configDir, "models/folder.yaml"), `source: file://${modelsDir}\n`);
      await writeFile(join(configDir, "models/odd.yaml"), "source: hf://owner/repo\n");
      for (const [slot, model] of Object.entries(slots))
        await writeFile(join(configDir, `slots/${slot}.toml`), `[model]\ndefault = "${model}"\n`);
    },
  });
  const path = (name: string): string => join(berth.modelsDir, name);

  await t.test("each slot names the problem that a person must mend, and no engine is started", async () => {
    const expected = {
      page: ["NotAModel", `${path("page.gguf")} is no GGUF file: it does not begin with GGUF`],
      cut: ["TruncatedModel", new RegExp(`^${path("cut.gguf")} is incomplete: \\d+ of \\d+ bytes are missing$`)],
      part: ["TruncatedModel", `${path("big-00001-of-00002.gguf")} is one of 2 parts; 1 is there`],
      far: [
        "UnsupportedSource",
        /^flm:\/\/far:1b is fetched by FastFlowLM's own tool, and there is no `flm` on the PATH of the operator/,
      ],
      folder: ["NotAModel", new RegExp(`^${berth.modelsDir} is no GGUF file that llama.cpp can load$`)],
      odd: ["UnsupportedSource", "hf://owner/repo is no hf://owner/repo/file[@revision]"],
      gone: ["ModelNotFound", /^no model is called gone: put gone\.gguf into the models directory/],
    } as const;
    for (const [name, [reason, message]] of Object.entries(expected)) {
      const slot = await berth.state(name, "error");
      const stalled = conditionOf(slot, "Stalled");
      assert.deepEqual([stalled?.status, stalled?.reason], ["True", reason], name);
      if (typeof message === "string") assert.equal(stalled?.message, message);
      else assert.match(String(stalled?.message), message);
      assert.deepEqual(slot.processes, []);
    }
    assert.doesNotMatch(berth.log(), /: (starting|warming)/);
    const messages = [{ role: "user", content: "hi" }];
    const response = await post(berth.url, "/v1/chat/completions", { model: "page", messages });
    assert.deepEqual([response.status, response.headers.get("x-should-retry")], [503, "false"]);
    const { error } = await envelopeOf(response);
    assert.equal(error.code, "slot.failed");
    assert.ok(!JSON.stringify(error).includes(berth.modelsDir), "paths are no client's business");
  });

  await t.test("each model is served as soon as its files are whole, without a restart of any process", async () => {
    await writeTinyModel(path("cut.gguf"));
    await writeTinyModel(path("gone.gguf"));
    await rm(path("page.gguf"));
    await writeTinyModel(path("page.gguf"));
    for (const name of ["cut", "gone", "page"]) {
      await berth.state(name, "ready", "idle", "serving");
      assert.equal((await chat(berth, name))[0], 200);
    }
  });
});

/** The first bytes of a model. */
async function tinyBytes(directory: string, length: number): Promise<Buffer> {
  const whole = join(directory, "../whole");
  await writeTinyModel(whole);
  const bytes = await readFile(whole);
  assert.ok(bytes.length > length);
  return bytes.subarray(0, length);
}
