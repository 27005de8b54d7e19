import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { TaskThread, type TaskThreadOptions } from "../../src/lib/task-thread.ts";

/** Answers with what it was sent; `grow` takes all memory, `throw` breaks the thread. */
const source = `
  import { parentPort, threadId } from "node:worker_threads";
  parentPort.on("message", (text) => {
    if (text === "grow") for (const all = []; ; ) all.push(new Array(1e6).fill(text));
    if (text === "throw") throw new Error("broken");
    parentPort.postMessage(text === "thread" ? threadId : text);
  });
  parentPort.postMessage("ready");
`;
const moduleOf = (text: string): URL => new URL(`data:text/javascript,${encodeURIComponent(text)}`);

function thread(options: Partial<TaskThreadOptions> = {}): TaskThread {
  return new TaskThread({
    module: moduleOf(source),
    idleMs: 60_000,
    most: 3,
    limits: { maxOldGenerationSizeMb: 64 },
    ...options,
  });
}

describe("a thread for tasks", { concurrency: true }, () => {
  it("answers tasks one after the other, and refuses more than its limit", async () => {
    await using tasks = thread();
    const asked = ["a", "b", "c"].map((text) => tasks.call<string>(text));
    await assert.rejects(tasks.call("d"), { name: "TaskNotDone", reason: "busy" });
    assert.deepEqual(await Promise.all(asked), ["a", "b", "c"]);
    assert.equal(await tasks.call("d"), "d");
  });

  it("outlives what takes all memory or breaks", async () => {
    await using tasks = thread();
    for (const text of ["grow", "throw"]) {
      await assert.rejects(tasks.call(text), { name: "TaskNotDone", reason: "ended" });
      assert.equal(await tasks.call("next"), "next");
    }
  });

  it("keeps its thread for the next task, and ends it after an idle time", async () => {
    await using kept = thread();
    assert.equal(await kept.call("thread"), await kept.call("thread"));
    await using ended = thread({ idleMs: 0 });
    const first = await ended.call<number>("thread");
    await new Promise((resolve) => setTimeout(resolve, 1));
    assert.notEqual(await ended.call("thread"), first);
  });
});
