import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import type { SlotStatus } from "../../src/api/status.ts";
import { chat, writeSlot } from "../paths/fixture.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";

type Processes = SlotStatus["processes"];

const manifest = (more = ""): string => `replicas = 2\n${more}[model]\ndefault = "tiny"\nparallel = 2\n`;
const ready = (all: Processes): Processes => all.filter(({ isReady }) => isReady);

/** Clients that send requests in a loop until they are stopped. */
class Clients {
  readonly answers: { readonly startedAt: number; readonly status: number; readonly text: string }[] = [];
  #isOver = false;
  readonly #all: Promise<void>[];

  constructor(berth: RunningBerth, count: number) {
    this.#all = Array.from({ length: count }, async () => {
      while (!this.#isOver) {
        const startedAt = performance.now();
        const [status, text] = await chat(berth, "primary").catch((error: unknown) => [0, String(error)] as const);
        this.answers.push({ startedAt, status, text });
      }
    });
  }

  /** Ends them once they have had more answers; resolves with the requests since then that were not answered. */
  async lostSince(since: number): Promise<readonly string[]> {
    const before = this.answers.length;
    await until("more was answered", () => this.answers.length > before + 20);
    this.#isOver = true;
    await Promise.all(this.#all);
    const lost = this.answers.filter(({ startedAt, status }) => startedAt >= since && status !== 200);
    return lost.map(({ status, text }) => `${status} ${text}`);
  }
}

it("of two replicas one is killed, and then both are replaced after an edit: one is always ready, and no request is lost", async () => {
  await using berth = await startBerth({
    prepare: async (directories) => {
      await writeTinyModel(join(directories.modelsDir, "tiny.gguf"));
      await writeSlot(directories, "primary", manifest());
    },
  });
  const processes = async (): Promise<Processes> =>
    (await readPublished(berth.stateDir, "primary"))?.status.processes ?? [];
  const both = async (isNew: (pid: number) => boolean = () => true): Promise<Processes> =>
    await until("both are ready", async () => {
      const all = ready(await processes());
      return all.length === 2 && all.every(({ pid = 0 }) => isNew(pid)) && all;
    });
  const pids = (await both()).map(({ pid = 0 }) => pid);

  const clients = new Clients(berth, 4);
  await until("both have answered", () => clients.answers.length > 20);
  process.kill(pids[1] ?? 0, "SIGKILL");
  await until("the gateway has read of its end", async () => {
    const { processes: known } = await berth.slot("primary");
    return Array.isArray(known) && !new RegExp(`"pid":${pids[1]}\\b`).test(JSON.stringify(known));
  });
  const publishedAt = performance.now();
  const again = await both((pid) => pid !== pids[1]);
  assert.equal(again[0]?.pid, pids[0]);
  assert.deepEqual(await clients.lostSince(publishedAt), []);

  const old = again.map(({ pid }) => pid);
  const others = new Clients(berth, 4);
  await until("they are at work", () => others.answers.length > 20);
  const editedAt = performance.now();
  await writeSlot(berth, "primary", manifest('env = { EDITED = "1" }\n'));
  let fewest = Infinity;
  await until("both are new", async () => {
    const now = await processes();
    fewest = Math.min(fewest, ready(now).length);
    return ready(now).length === 2 && now.length === 2 && now.every(({ pid }) => !old.includes(pid));
  });
  assert.equal(fewest, 1);
  assert.deepEqual(await others.lostSince(editedAt), []);
  const states = (await readPublished(berth.stateDir, "primary"))?.status.transitions.map(({ to }) => to);
  assert.deepEqual(states, ["starting", "warming", "ready"], "the slot never left its state");
});
