import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { test } from "node:test";
import { startHeartbeat } from "../../../src/operator/report/heartbeat.ts";
import type { Publisher } from "../../../src/store/store.ts";

test("a heartbeat that cannot be written is logged once, tried each second, and its recovery is logged", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const told: string[] = [];
  let isFull = false;
  let tries = 0;
  const unused = async (): Promise<never> => assert.fail("only the operator's own record is written");
  const publisher: Publisher = {
    place: "/state",
    readSlots: unused,
    writeSlot: unused,
    deleteSlot: unused,
    hideSlot: unused,
    missingSlots: () => [],
    hasRegistry: () => true,
    writeRegistry: unused,
    writeOperator: async () => {
      tries += 1;
      if (isFull) throw new Error("full");
    },
  };
  await using heartbeat = await startHeartbeat({
    publisher,
    read: () => ({
      schema: 1,
      instance: "i",
      pid: 1,
      bootId: "b",
      startedAt: "",
      isPaused: false,
      isSettled: true,
      configDir: "/c",
      runtime: "process",
      problems: [],
    }),
    onFailing: (error) => told.push(String(error)),
    onEnd: () => told.push("ended"),
  });
  const second = async (): Promise<void> => {
    t.mock.timers.tick(1000);
    await turn();
  };
  isFull = true;
  for (let i = 0; i < 3; i++) await second();
  assert.deepEqual([tries, told], [4, ["Error: full"]]);
  isFull = false;
  for (let i = 0; i < 2; i++) await second();
  assert.deepEqual([tries, told], [6, ["Error: full", "ended"]]);
  assert.ok(heartbeat);
});
