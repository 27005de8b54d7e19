import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { connect, Socket } from "node:net";
import { describe, it } from "node:test";
import type { ModelTask } from "../../../src/api/model-task.ts";
import { askOperator } from "../../../src/gateway/management/model-task.ts";
import { waitForOperator, waitUntil } from "../../../src/gateway/management/wait.ts";
import type { OperatorLiveness } from "../../../src/store/store.ts";
import { later } from "../../support/later.ts";
import { listen } from "../../support/listen.ts";

const { signal: stopping } = new AbortController();

/** What a wait watches: how many watch it, and a change that all of them are told of. */
function watched() {
  const watchers = new Set<() => void>();
  const began = Promise.withResolvers<void>();
  return {
    watchers,
    began: began.promise,
    look: () => watchers.forEach((onChange) => onChange()),
    watch: (onChange: () => void): Disposable => {
      watchers.add(onChange);
      began.resolve();
      return { [Symbol.dispose]: () => void watchers.delete(onChange) };
    },
  };
}

describe("a wait", () => {
  for (const [when, isEarly] of [
    ["before it begins", true],
    ["while it waits", false],
  ] as const)
    it(`ends where its client leaves ${when}, and listens to nothing then`, { timeout: 180_000 }, async () => {
      const server = createServer();
      try {
        const socket = connect({ host: "127.0.0.1", port: await listen(server) });
        socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        const client = await new Promise<IncomingMessage>((resolve) => server.once("request", resolve));
        const left = once(client.socket, "close");
        if (isEarly) {
          socket.destroy();
          await left;
        }
        const { watch, watchers } = watched();
        const waiting = waitUntil(() => false, { watch, timeoutMs: 600_000, client, stopping });
        assert.equal(watchers.size, isEarly ? 0 : 1);
        socket.destroy();
        await waiting;
        assert.equal(watchers.size, 0);
      } finally {
        server.close();
      }
    });

  it("for the operator ends once none has lived for the time of grace, not before", async () => {
    const socket = new Socket();
    let liveness: OperatorLiveness = "live";
    const waits = [0, 600_000].map((graceMs) => {
      const { watch, look } = watched();
      const wait = { look, isDone: false };
      const options = { watch, timeoutMs: 600_000, client: { socket }, stopping, liveness: () => liveness, graceMs };
      void waitForOperator(() => false, options).then(() => (wait.isDone = true));
      return wait;
    });
    const looked = async (): Promise<boolean[]> => {
      for (const { look } of waits) look();
      await new Promise((resolve) => setImmediate(resolve));
      return waits.map(({ isDone }) => isDone);
    };
    assert.deepEqual(await looked(), [false, false]);
    liveness = "stale";
    assert.deepEqual(await looked(), [true, false]);
    socket.destroy();
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(await looked(), [true, true]);
  });
});

describe("a task for an operator that falls silent while it is waited for", () => {
  /** Nothing reports a heartbeat that does not come: the wait itself looks each second. */
  async function askDyingOperator(mayWait: boolean) {
    let liveness: OperatorLiveness = "live";
    const { watch, watchers, began, look } = watched();
    const tasks = new Map<string, ModelTask>();
    const modelTasks = {
      put: async (task: ModelTask) => void tasks.set(task.id, task),
      answers: () => [],
      remove: async (id: string) => void tasks.delete(id),
      watch,
    };
    const context = { modelTasks, stopping, operatorLiveness: () => liveness };
    const wanted = { kind: "remove" as const, ref: "a", files: [], isDryRun: !mayWait };
    const answer = later(askOperator(context, wanted, { socket: new Socket() }, mayWait));
    await began;
    look();
    assert.equal(watchers.size, 1, "a live operator is waited for");
    liveness = "stale";
    return { answer: await answer.catch((error: unknown) => error), watchers, tasks: [...tasks.values()] };
  }

  it("is withdrawn at once", { timeout: 180_000 }, async () => {
    const { answer, watchers, tasks } = await askDyingOperator(false);
    assert.ok(answer instanceof Error);
    assert.match(answer.message, /^no operator has answered/);
    assert.deepEqual([watchers.size, tasks], [0, []]);
  });

  it("stays for the next operator if it may wait", { timeout: 180_000 }, async () => {
    const { answer, watchers, tasks } = await askDyingOperator(true);
    assert.deepEqual([answer, watchers.size, tasks.map(({ kind }) => kind)], [undefined, 0, ["remove"]]);
  });
});
