import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FreshReading } from "../../../web/chat/fresh-reading.ts";

/** A reading whose answers come when the test says so. */
function scripted(): {
  readonly reading: FreshReading<string>;
  readonly answer: (at: number, text: string) => void;
  readonly asked: () => number;
} {
  const open: ((text: string) => void)[] = [];
  const reading = new FreshReading(() => new Promise<string>((resolve) => open.push(resolve)));
  return { reading, answer: (at, text) => open[at]?.(text), asked: () => open.length };
}

describe("what a page reads and changes itself", () => {
  it("is read again where it was changed meanwhile, so that what was deleted does not come back", async () => {
    const { reading, answer, asked } = scripted();
    const found = reading.latest();
    reading.changed();
    answer(0, "with the deleted one");
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(asked(), 2);
    answer(1, "without it");
    assert.equal(await found, "without it");
  });

  it("is what the latest reading has found, in whatever order answers come", async () => {
    const { reading, answer } = scripted();
    const [first, second] = [reading.latest(), reading.latest()];
    answer(1, "new");
    answer(0, "old");
    assert.deepEqual(await Promise.all([first, second]), [undefined, "new"]);
  });

  it("rejects as reading does", async () => {
    const reading = new FreshReading(() => Promise.reject(new Error("refused")));
    await assert.rejects(reading.latest(), /refused/);
  });
});
