import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import type { SlotStatus } from "../../src/api/status.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";

type Processes = SlotStatus["processes"];

const manifest = (more = ""): string => `replicas = 2\n${more}[model]\ndefault = "tiny"\nparallel = 2\n`;

async function processes(berth: RunningBerth): Promise<Processes> {
  return (await readPublished(berth.stateDir, "primary"))?.status.processes ?? [];
}

const ready = (all: Processes): Processes => all.filter(({ isReady }) => isReady);

/** Clients that send requests in a loop until they are stopped. */
class Clients {
  readonly answers: { readonly startedAt: number; readonly status: number; readonly text: string }[] = [];
  #isOver = false;
  readonly #all: Promise<void>[];

  constructor(berth: RunningBerth, count: number) {
    this.#all = Array.from({ length: count }, async (_, client) => {
      for (let turn = 0; !this.#isOver; turn++) await this.#ask(berth, `client ${client}, turn ${turn}`);
    });
  }

  /** The requests since then that were not answered. */
  lostSince(startedAt: number): readonly string[] {
    return this.answers
      .filter((answer) => answer.startedAt >= startedAt && answer.status !== 200)
      .map(({ status, text }) => `${status} ${text}`);
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#all);
  }

  async #ask(berth: RunningBerth, content: string): Promise<void> {
    const startedAt = performance.now();
    try {
      const response = await fetch(new URL("/v1/chat/completions", berth.url), {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "primary", messages: [{ role: "user", content }], max_tokens: 8 }),
      });
      this.answers.push({ startedAt, status: response.status, text: await response.text() });
    } catch (error) {
      this.answers.push({ startedAt, status: 0, text: String(error) });
    }
  }
}

test("two replicas of the real engine behind the real gateway", async (t) => {
  await using berth = await startBerth({
    prepare: async ({ configDir, modelsDir }) => {
      await writeTinyModel(join(modelsDir, "tiny.gguf"));
      await writeFile(join(configDir, "slots/primary.toml"), manifest());
    },
  });
  const first = await until("both are ready", async () => {
    const all = ready(await processes(berth));
    return all.length === 2 && all;
  });
  assert.deepEqual(
    first.map(({ role, ordinal }) => [role, ordinal]),
    [
      ["main", 0],
      ["main", 1],
    ],
  );
  const pids = first.map(({ pid = 0 }) => pid);

  await t.test(
    "one replica is killed: the other keeps its pid, and no request fails once the death is published",
    async () => {
      const clients = new Clients(berth, 4);
      await until("both have answered", () => clients.answers.length > 20);
      process.kill(pids[1] ?? 0, "SIGKILL");
      await until("its end is published", async () => (await processes(berth)).every(({ pid }) => pid !== pids[1]));
      await until("the gateway has read it", async () => {
        const { processes: known } = await berth.slot("primary");
        return Array.isArray(known) && !new RegExp(`"pid":${pids[1]}\\b`).test(JSON.stringify(known));
      });
      const publishedAt = performance.now();
      const again = await until("both are ready again", async () => {
        const all = ready(await processes(berth));
        return all.length === 2 && all;
      });
      assert.equal(again[0]?.pid, pids[0]);
      assert.ok(!pids.includes(again[1]?.pid ?? 0));
      const before = clients.answers.length;
      await until("more was answered", () => clients.answers.length > before + 20);
      await clients.end();
      assert.deepEqual(clients.lostSince(publishedAt), []);
      const { state, conditions } = (await readPublished(berth.stateDir, "primary"))?.status ?? {};
      assert.deepEqual([state, conditions?.find(({ type }) => type === "Available")?.status], ["ready", "True"]);
    },
  );

  await t.test(
    "an edit replaces the replicas one after the other: one of them is always ready, and no request is lost",
    async () => {
      const old = (await processes(berth)).map(({ pid }) => pid);
      const clients = new Clients(berth, 4);
      await until("they are at work", () => clients.answers.length > 20);
      const editedAt = performance.now();
      await writeFile(join(berth.configDir, "slots/primary.toml"), manifest('env = { EDITED = "1" }\n'));
      let fewest = Infinity;
      const all = await until("both are new", async () => {
        const now = await processes(berth);
        fewest = Math.min(fewest, ready(now).length);
        return ready(now).length === 2 && now.every(({ pid }) => !old.includes(pid)) && now;
      });
      await clients.end();
      assert.equal(fewest, 1);
      assert.equal(all.length, 2);
      assert.deepEqual(clients.lostSince(editedAt), []);
      const states = (await readPublished(berth.stateDir, "primary"))?.status.transitions.map(({ to }) => to);
      assert.deepEqual(states, ["starting", "warming", "ready"], "the slot never left its state");
    },
  );
});
