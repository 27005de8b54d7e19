import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { test } from "node:test";
import { startHeartbeat } from "../../../src/operator/report/heartbeat.ts";
import { PublisherDouble } from "../../doubles/state.ts";

test("a heartbeat that cannot be written is logged once, tried at each beat, and its recovery is logged", async () => {
  const told: string[] = [];
  let isFull = false;
  let tries = 0;
  let beat = (): void => undefined;
  const publisher = new PublisherDouble();
  publisher.writeOperator = async () => {
    tries += 1;
    if (isFull) throw new Error("full");
  };
  const report = { schema: 1, instance: "i", pid: 1, bootId: "b", startedAt: "", configDir: "/c" } as const;
  await using _heartbeat = await startHeartbeat({
    publisher,
    read: () => ({ ...report, isPaused: false, isSettled: true, slotCount: 0, runtime: "process", problems: [] }),
    onFailing: (error) => told.push(String(error)),
    onEnd: () => told.push("ended"),
    every: (task) => {
      beat = task;
      return { [Symbol.dispose]: () => undefined };
    },
  });
  const beats = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) {
      beat();
      await turn();
    }
  };
  isFull = true;
  await beats(3);
  assert.deepEqual([tries, told], [4, ["Error: full"]]);
  isFull = false;
  await beats(2);
  assert.deepEqual([tries, told], [6, ["Error: full", "ended"]]);
});
