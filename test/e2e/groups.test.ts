import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { transitionSchema } from "../../src/api/status.ts";
import { isRecord } from "../../src/cli/output.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";

const slots = ["one", "two"] as const;

async function prepare({ configDir, modelsDir }: { configDir: string; modelsDir: string }): Promise<void> {
  await mkdir(join(configDir, "groups"));
  await writeFile(join(configDir, "groups/gpu.toml"), "max_wait_seconds = 5\nmin_residency_seconds = 0\n");
  for (const slot of slots) {
    await writeTinyModel(join(modelsDir, `model-${slot}.gguf`));
    const spec = `load = "onDemand"\ngroup = "gpu"\n[model]\ndefault = "model-${slot}"\n`;
    await writeFile(join(configDir, `slots/${slot}.toml`), spec);
  }
}

async function chat(berth: RunningBerth, model: string, isStreamed: boolean): Promise<string> {
  const response = await fetch(new URL("/v1/chat/completions", berth.url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model,
      messages: [{ role: "user", content: "hello" }],
      max_tokens: 8,
      stream: isStreamed,
    }),
  });
  const text = await response.text();
  const isWhole = isStreamed ? text.trimEnd().endsWith("data: [DONE]") : isRecord(JSON.parse(text));
  return `${response.status} ${isWhole ? "whole" : text.slice(0, 300)}`;
}

it("reports the cost of coming back: the time of the last load, and the tokens in the engine's cache", async () => {
  await using berth = await startBerth({ prepare });
  await chat(berth, "one", false);
  const costOfOne = async (): Promise<Record<string, unknown>> => {
    const group: unknown = await (await fetch(new URL("/api/groups/gpu", berth.url))).json();
    const members: unknown = isRecord(group) ? group["members"] : undefined;
    const found: unknown = Array.isArray(members)
      ? members.find((each) => isRecord(each) && each["slot"] === "one")
      : {};
    const cost = isRecord(found) ? found["cost"] : undefined;
    return isRecord(cost) ? cost : {};
  };
  await until(
    "the operator has read the tokens",
    async () => typeof (await costOfOne())["context_tokens"] === "number",
  );
  const { load_seconds: load, context_tokens: tokens, context_seconds: read } = await costOfOne();
  assert.ok(typeof load === "number" && load > 0, `loaded in ${String(load)} s`);
  assert.ok(typeof tokens === "number" && tokens > 8, `${String(tokens)} tokens`);
  assert.equal(read, tokens / 500);
  await chat(berth, "two", false);
  const { transitions } = await berth.slot("one");
  const left = transitionSchema
    .array()
    .parse(transitions)
    .findLast(({ reason }) => reason === "Preempted");
  assert.match(left?.message ?? "", new RegExp(`to load, \\d+ s to read ${tokens} tokens of its cache again$`));
});

/** Whether a published process still runs. */
function isAlive(published: unknown): boolean {
  const pid = isRecord(published) ? published["pid"] : undefined;
  assert.ok(typeof pid === "number", "a process has a pid");
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Moves of a slot into each state, as its history counts them. */
async function moves(berth: RunningBerth, slot: string, to: string): Promise<number> {
  const text = await (await fetch(new URL("/metrics", berth.operatorUrl))).text();
  const line = text
    .split("\n")
    .find((each) => each.startsWith(`berth_slot_transitions_total{slot="${slot}",to="${to}"}`));
  return Number(line?.split(" ").at(-1) ?? 0);
}

it("two slots that exclude each other answer every request under alternating load, one engine at a time", async () => {
  await using berth = await startBerth({ prepare });
  let isOver = false;
  const together: string[] = [];
  const watching = (async (): Promise<void> => {
    while (!isOver) {
      // Without a pause the looks would take most of the processor from what is looked at.
      await delay(50);
      const found = await Promise.all(slots.map((slot) => berth.slot(slot)));
      // Each answer is of its own moment: an engine that has ended since then does not count.
      const running = found.filter(({ processes }) => Array.isArray(processes) && processes.some(isAlive));
      if (running.length > 1)
        together.push(running.map(({ name, state }) => `${String(name)} ${String(state)}`).join(", "));
    }
  })();
  const answers: string[] = [];
  const ask = async (slot: string, isStreamed: boolean): Promise<void> =>
    void answers.push(await chat(berth, slot, isStreamed));
  // One after the other, to each slot in turn: each request makes the other slot leave.
  for (let round = 0; round < 2; round++) for (const slot of slots) await ask(slot, round % 2 === 0);
  assert.deepEqual([await moves(berth, "one", "starting"), await moves(berth, "two", "starting")], [2, 2]);
  // Both at once, without a pause: whoever is loaded is never idle, and leaves for who has waited its bound.
  const loadsOfBoth = async (): Promise<number> =>
    (await moves(berth, "one", "starting")) + (await moves(berth, "two", "starting"));
  await Promise.all(
    slots.flatMap((slot) =>
      [true, false].map(async (isStreamed) => {
        do await ask(slot, isStreamed);
        while ((await loadsOfBoth()) < 6);
      }),
    ),
  );
  isOver = true;
  await watching;
  assert.deepEqual([...new Set(answers)], ["200 whole"], `${answers.length} answers`);
  assert.deepEqual(together, []);
  assert.deepEqual([await moves(berth, "one", "error"), await moves(berth, "two", "error")], [0, 0]);
});
