import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import type { RunningBerth } from "../support/berth.ts";
import { ask, post } from "../support/openai.ts";
import { llamaServer, processOf, programOf, startWithLlamaServer } from "./fixture.ts";
import { until } from "../support/until.ts";

interface Look {
  readonly pid: number;
  /** What the engine answers before and after the slot's state is read. */
  readonly statuses: readonly number[];
  readonly state: string;
}

/** The first answer of an engine other than the previous one. */
async function firstLook(berth: RunningBerth, previous?: number): Promise<Look> {
  return await until("the engine answers", async () => {
    const { pid, endpoint } = processOf(await berth.slot("primary"));
    if (pid === previous) return undefined;
    const health = async (): Promise<number> => (await fetch(`${endpoint}/health`)).status;
    const before = await health();
    const state = String((await berth.slot("primary"))["state"]);
    return { pid, statuses: [before, await health()], state };
  });
}

test("while llama-server loads it answers 503, and the slot is not ready", async () => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    // Wide enough that reading it takes a while: what is not written costs no disk.
    await writeTinyModel(join(modelsDir, "slow.gguf"), { hollow: 400_000 });
    await writeFile(
      join(configDir, "slots/primary.toml"),
      'args = ["--load-mode", "none"]\n[model]\ndefault = "slow"\n',
    );
  });
  let seen = await firstLook(berth);
  // A test that was halted meanwhile has missed the load: then it watches another one.
  for (let restarts = 0; restarts < 5 && seen.statuses.includes(200); restarts++) {
    await berth.state("primary", "ready", "idle");
    const answer = await post(berth.url, "/api/slots/primary/restart", {});
    assert.equal(answer.status, 202, await answer.text());
    seen = await firstLook(berth, seen.pid);
  }
  assert.deepEqual(seen.statuses, [503, 503]);
  assert.ok(["starting", "warming"].includes(seen.state), seen.state);
  await berth.state("primary", "ready");
  await ask(berth.url, "/v1/chat/completions", {
    model: "primary",
    messages: [{ role: "user", content: "x" }],
    max_tokens: 1,
  });
});

test("the embedded engine runs beside llama-server where the manifest names it, and an edit replaces it", async () => {
  const program = async (slot: string): Promise<string> => await programOf(processOf(await berth.slot(slot)).pid);
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeTinyModel(join(modelsDir, "tiny.gguf"));
    await writeFile(join(configDir, "slots/primary.toml"), '[model]\ndefault = "tiny"\n');
    await writeFile(join(configDir, "slots/coder.toml"), 'program = "embedded"\n[model]\ndefault = "tiny"\n');
  });
  await berth.state("primary", "ready", "idle");
  await berth.state("coder", "ready", "idle");
  assert.deepEqual([await program("primary"), await program("coder")], [llamaServer(), process.execPath]);
  await writeFile(join(berth.configDir, "slots/coder.toml"), '[model]\ndefault = "tiny"\n');
  await until("llama-server runs the slot", async () => {
    const { state } = await berth.slot("coder");
    return (state === "ready" || state === "idle") && (await program("coder").catch(() => "")) === llamaServer();
  });
});
