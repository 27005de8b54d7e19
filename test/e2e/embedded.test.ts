import assert from "node:assert/strict";
import { rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { pidOf, writeSlot } from "../paths/fixture.ts";
import { startBerth } from "../support/berth.ts";
import { berthProcess, runBerth } from "../support/command.ts";
import { ask, list } from "../support/openai.ts";
import { until } from "../support/until.ts";

test("edit a manifest, get a served model: the real engine behind the real gateway", async (t) => {
  await using berth = await startBerth({
    prepare: async (directories) => {
      await writeTinyModel(join(directories.modelsDir, "tiny.gguf"));
      await writeTinyModel(join(directories.modelsDir, "tiny-embed.gguf"), { embedding: true });
      await writeSlot(directories, "primary", 'enabled = true\n[model]\ndefault = "tiny"\n');
    },
  });
  const first = await berth.state("primary", "ready");
  const pid = await pidOf(berth, "primary");

  await t.test("the engine reports its devices", () => {
    assert.deepEqual(first["compute"], { devices: [], layers_offloaded: 0, layers_total: 3, buffers: [] });
    assert.equal(first["backend"], "cpu");
  });

  await t.test("a new manifest is a new slot at once, and leaves the others alone", async () => {
    await writeFile(join(berth.configDir, "slots/embed.yaml"), "model:\n  default: tiny-embed\n");
    await until("the operator acts", () => /embed: starting/.test(berth.log()));
    await berth.state("embed", "ready");
    const body = await ask(berth.url, "/v1/embeddings", { model: "embed", input: ["hello", "world"] });
    assert.equal(list(body["data"]).length, 2);
    assert.equal(await pidOf(berth, "primary"), pid);
  });

  await t.test("a removed manifest drains and deletes its slot after a second listing agrees", async () => {
    const embed = (await pidOf(berth, "embed")) ?? assert.fail("it has no process");
    await rm(join(berth.configDir, "slots/embed.yaml"));
    await until("the engine is gone", () => startTimeOf(embed) === undefined);
    const slot = await until("it is unconfigured again", async () => {
      const found = await berth.slot("embed");
      return found["state"] === "offline" ? found : undefined;
    });
    assert.equal(slot["enabled"], false);
  });

  await t.test("a directory that is moved away deletes nothing", async () => {
    await rename(join(berth.configDir, "slots"), join(berth.configDir, "elsewhere"));
    await until("the source is reported", async () =>
      JSON.stringify(await berth.get("/api/health/system")).includes("Source"),
    );
    assert.equal(await pidOf(berth, "primary"), pid);
    await rename(join(berth.configDir, "elsewhere"), join(berth.configDir, "slots"));
    await until(
      "the report ends",
      async () => !JSON.stringify(await berth.get("/api/health/system")).includes("Source"),
    );
    assert.equal(await pidOf(berth, "primary"), pid);
  });

  await t.test("the command line shows the slot and its plan", async () => {
    const said = async (...words: readonly string[]): Promise<string> =>
      (await runBerth(words, { ...berth.env, SVC_URL: berth.url })).stdout;
    const row =
      /^NAME +STATE +READY +MODEL +PORT +RESTARTS +UP\nprimary +(ready|idle|serving) +(?:Ready|Answering 1) +tiny /;
    assert.match(await said("slot", "list"), row);
    assert.equal(await said("slot", "plan", "primary"), "primary: Loaded: tiny is loaded\n  nothing to do\n");
    assert.match(await said("slot", "show", "primary"), /^memory: +\d+(\.\d)? MiB$/m);
    assert.match(await said("chat", "primary", "hello", "--max-tokens", "3"), /^\S+ \S+ \S+\n$/);
    assert.match(await said("slot", "logs", "primary"), /loaded tiny in/);
    const { code, stderr } = await berthProcess(["slot", "show", "nope"], { ...berth.env, SVC_URL: berth.url });
    assert.equal(code, 1);
    assert.match(stderr, /slot\.not_found: no slot is called "nope"\nsee `berth slot list`/);
  });

  await t.test("metrics count the same requests and transitions", async () => {
    const gateway = await (await fetch(`${berth.url}/metrics`)).text();
    assert.match(gateway, /berth_requests_total\{route="\/v1\/embeddings",slot="embed",code="200"\} 1$/m);
    assert.match(gateway, /berth_slot_state\{slot="primary",state="(ready|idle|serving)"\} 1/);
    const operator = await (await fetch(`${berth.operatorUrl}/metrics`)).text();
    assert.match(operator, /^berth_slot_transitions_total\{slot="primary",to="ready"\} 1$/m);
  });
});
