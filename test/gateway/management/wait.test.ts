import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { connect, Socket } from "node:net";
import { describe, it } from "node:test";
import { askOperator } from "../../../src/gateway/management/model-task.ts";
import { waitForOperator, waitUntil } from "../../../src/gateway/management/wait.ts";
import { sets } from "../../../src/store/sets.ts";
import type { OperatorLiveness } from "../../../src/store/store.ts";
import { SetDouble } from "../../doubles/state.ts";
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

  it("for the operator ends once none has lived for the time of grace since the last sign of life, not before", async () => {
    const { watch, look } = watched();
    let liveness: OperatorLiveness = "live";
    let clock = 0;
    let isDone = false;
    const operator = { liveness: () => liveness, graceMs: 30_000, now: () => clock };
    const client = { socket: new Socket() };
    const wait = waitForOperator(() => false, { watch, timeoutMs: 600_000, client, stopping, ...operator });
    const ended = wait.then(() => (isDone = true));
    for (const [at, now] of [
      [20_000, "live"],
      [49_999, "stale"],
    ] as const) {
      clock = at;
      liveness = now;
      look();
      await new Promise((resolve) => setImmediate(resolve));
      assert.equal(isDone, false, `${at} ms`);
    }
    clock = 50_000;
    look();
    await ended;
  });
});

describe("a task for an operator that falls silent while it is waited for", () => {
  // Nothing reports a heartbeat that does not come: the wait itself looks each second.
  for (const [what, mayWait, told, left] of [
    ["is withdrawn at once", false, /^ApiError: no operator has answered/, []],
    ["stays for the next operator if it may wait", true, /^undefined$/, ["remove"]],
  ] as const)
    it(what, { timeout: 180_000 }, async () => {
      let liveness: OperatorLiveness = "live";
      const { watch, watchers, began, look } = watched();
      const modelTasks = new SetDouble(sets.modelTasks);
      const modelAnswers = Object.assign(new SetDouble(sets.modelAnswers), { watch });
      const context = { modelTasks, modelAnswers, stopping, operatorLiveness: () => liveness };
      const wanted = { kind: "remove" as const, ref: "a", files: [], isDryRun: !mayWait };
      const answer = later(askOperator(context, wanted, { socket: new Socket() }, mayWait));
      await began;
      look();
      assert.equal(watchers.size, 1, "a live operator is waited for");
      liveness = "stale";
      assert.match(String(await answer.catch((error: unknown) => error)), told);
      assert.equal(watchers.size, 0);
      assert.deepEqual(
        modelTasks.list().map(({ kind }) => kind),
        left,
      );
    });
});
