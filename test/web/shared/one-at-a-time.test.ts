import assert from "node:assert/strict";
import { it } from "node:test";
import { oneAtATime } from "../../../web/shared/one-at-a-time.ts";

it("a task that is asked for while it runs is not begun a second time, and is begun again after it, also where it fails", async () => {
  const runs: PromiseWithResolvers<undefined>[] = [];
  const task = oneAtATime(async () => {
    const run = Promise.withResolvers<undefined>();
    runs.push(run);
    await run.promise;
  });
  const both = [task(), task()];
  assert.equal(runs.length, 1);
  runs[0]?.resolve(undefined);
  await Promise.all(both);
  const failing = [task(), task()];
  assert.equal(runs.length, 2);
  runs[1]?.reject(new Error("refused"));
  const ended = await Promise.allSettled(failing);
  assert.deepEqual(
    ended.map(({ status }) => status),
    ["rejected", "rejected"],
  );
  void task();
  assert.equal(runs.length, 3);
});
