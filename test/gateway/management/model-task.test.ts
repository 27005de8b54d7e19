import assert from "node:assert/strict";
import { Socket } from "node:net";
import { it, mock } from "node:test";
import type { ModelTask } from "../../../src/api/model-task.ts";
import { askOperator } from "../../../src/gateway/management/model-task.ts";
import type { OperatorLiveness } from "../../../src/store/store.ts";
import { later } from "../../support/later.ts";

/** A double of the tasks' store, whose operator answers nothing and falls silent once it is waited for. */
async function askDyingOperator(mayWait: boolean) {
  let liveness: OperatorLiveness = "live";
  let watchers = 0;
  const tasks = new Map<string, ModelTask>();
  const waited = Promise.withResolvers<void>();
  const modelTasks = {
    put: async (task: ModelTask) => void tasks.set(task.id, task),
    answers: () => [],
    remove: async (id: string) => void tasks.delete(id),
    watch: () => {
      watchers += 1;
      waited.resolve();
      return { [Symbol.dispose]: () => void (watchers -= 1) };
    },
  };
  const { signal: stopping } = new AbortController();
  const context = { modelTasks, stopping, operatorLiveness: () => liveness };
  mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  try {
    const wanted = { kind: "remove" as const, ref: "a", files: [], isDryRun: !mayWait };
    const answer = later(askOperator(context, wanted, { socket: new Socket() }, mayWait));
    await waited.promise;
    mock.timers.tick(5000);
    assert.equal(watchers, 1, "a live operator is waited for");
    liveness = "stale";
    mock.timers.tick(5000);
    return { answer: await answer.catch((error: unknown) => error), watchers, tasks: [...tasks.values()] };
  } finally {
    mock.timers.reset();
  }
}

it(
  "a wait for an operator that dies meanwhile ends at once, and its task is withdrawn",
  { timeout: 180_000 },
  async () => {
    const { answer, watchers, tasks } = await askDyingOperator(false);
    assert.ok(answer instanceof Error);
    assert.match(answer.message, /^no operator has answered/);
    assert.deepEqual([watchers, tasks], [0, []]);
  },
);

it("a task that may wait stays for the next operator", { timeout: 180_000 }, async () => {
  const { answer, watchers, tasks } = await askDyingOperator(true);
  assert.deepEqual([answer, watchers, tasks.map(({ kind }) => kind)], [undefined, 0, ["remove"]]);
});
