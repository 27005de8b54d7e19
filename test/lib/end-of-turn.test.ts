import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { atEndOfTurn } from "../../src/lib/end-of-turn.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("atEndOfTurn", () => {
  it("flushes every object in order, after every event of this turn", async () => {
    const log: string[] = [];
    for (const name of ["a", "b"]) atEndOfTurn({ flush: () => void log.push(name) });
    process.nextTick(() => log.push("still heard"));
    await turn();
    assert.deepEqual(log, ["still heard", "a", "b"]);
  });

  it("flushes an object that a flush adds in a later turn", async () => {
    const log: string[] = [];
    atEndOfTurn({
      flush: () => {
        log.push("first");
        atEndOfTurn({ flush: () => void log.push("second") });
      },
    });
    await turn();
    assert.deepEqual(log, ["first"]);
    await turn();
    assert.deepEqual(log, ["first", "second"]);
  });

  it("flushes the other objects where one throws", async () => {
    const program = `
      import { atEndOfTurn } from ${JSON.stringify(new URL("../../src/lib/end-of-turn.ts", import.meta.url).href)};
      process.on("uncaughtException", ({ message }) => console.log(message));
      const say = (word) => atEndOfTurn({ flush: () => console.log(word) });
      say("before");
      atEndOfTurn({ flush() { throw new Error("odd"); } });
      say("after");`;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program]);
    assert.equal(stdout, "before\nodd\nafter\n");
  });
});
