import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { FileThread } from "../../../src/models/fetch/file-thread.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { mebibyte as blockBytes } from "./site.ts";

/** More than two of the steps in which a file is read. */
const blocks = 24;
const sizeBytes = blocks * blockBytes;
const layout = { sizeBytes, blockBytes };
const zeros = Buffer.alloc(sizeBytes);
const sumOfAll = createHash("sha256").update(zeros).digest("hex");

/** The running sum of the first blocks of a file of zeros. */
function prefix(count: number): { readonly of: "prefix"; readonly sum: number } {
  const hash = createHash("sha256").update(zeros.subarray(0, count * blockBytes));
  return { of: "prefix", sum: hash.digest().readUInt32BE(0) };
}

const endless = new AbortController().signal;

async function opened() {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await tempDir());
  const path = join(directory.path, "data");
  await writeFile(path, "");
  await truncate(path, sizeBytes);
  const thread = stack.use(new FileThread());
  const hash = stack.use(thread.begin(path));
  const other = stack.use(thread.begin(path));
  const owned = stack.move();
  return { path, hash, other, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

describe("a file whose last block alone has a running sum, as after a connection that stalled", () => {
  it("is not read on once nobody wants it any more", async () => {
    await using site = await opened();
    // Much more than can be read before this thread has its turn.
    const many = 4096;
    await truncate(site.path, many * blockBytes);
    const ended = new AbortController();
    const long = { sizeBytes: many * blockBytes, blockBytes };
    const wrong = site.hash.wrongBlocks(long, new Map([[many - 1, prefix(blocks)]]), ended.signal);
    const refused = assert.rejects(wrong, { name: "AbortError" });
    await site.other.digest(0);
    ended.abort();
    await refused;
  });
});

it("the blocks after one with a wrong running sum are unknown, wherever steps end", async () => {
  const good = [0, 1, 8, 15, 16, 20];
  const prefixes = new Map([...good, 23, 17].map((index) => [index, prefix(index + 1)]));
  for (const bad of [undefined, 0, 8, 16, 23, 17]) {
    await using site = await opened();
    const indexes = [...new Set([...good, ...(bad === undefined ? [] : [bad])])];
    const sums = new Map(
      indexes.map((index) => {
        const { of, sum } = prefixes.get(index) ?? prefix(index + 1);
        return [index, { of, sum: index === bad ? sum ^ 1 : sum }];
      }),
    );
    const wrong = await site.hash.wrongBlocks(layout, sums, endless);
    const expected = indexes.filter((index) => index >= (bad ?? blocks));
    const byNumber = (all: readonly number[]): number[] => all.toSorted((a, b) => a - b);
    assert.deepEqual(byNumber(wrong), byNumber(expected), String(bad));
    assert.equal(await site.hash.digest(sizeBytes), sumOfAll);
  }
});
