import assert from "node:assert/strict";
import { it } from "node:test";
import { RangeWriter } from "../../../src/models/fetch/range-writer.ts";
import { mebibyte } from "./site.ts";

it("writes in order, and nothing after bytes that could not be written: a mark says that all before it is there", async () => {
  const writes: { readonly position: number; readonly done: PromiseWithResolvers<void> }[] = [];
  const writer = new RangeWriter({
    write: async (position) => {
      const done = Promise.withResolvers<void>();
      writes.push({ position, done });
      await done.promise;
    },
  });
  const positions = (): readonly number[] => writes.map(({ position }) => position / mebibyte);
  const turn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));
  writer.begin({ from: 0, to: 4 * mebibyte });
  const full = Buffer.alloc(mebibyte);
  assert.equal(
    writer.push(full, () => undefined),
    true,
  );
  assert.equal(
    writer.push(full, () => undefined),
    false,
    "both buffers are full",
  );
  await turn();
  assert.deepEqual(positions(), [0]);
  writes[0]?.done.reject(new Error("no"));
  await assert.rejects(writer.settled(), /^Error: no$/);
  assert.deepEqual(positions(), [0]);
});
