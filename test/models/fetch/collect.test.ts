import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { BlobStore } from "../../../src/models/fetch/blob-store.ts";
import { collect, exclusiveBytes } from "../../../src/models/fetch/collect.ts";
import { writePartial } from "../../../src/models/fetch/partial-record.ts";
import { tempDir } from "../../support/temp-dir.ts";

const digest = (letter: string): string => letter.repeat(64);

/** A store with the model `kept`, a content that nothing has, and parts of two sources. */
async function site() {
  const directory = await tempDir();
  const store = await BlobStore.open(directory.path, "this boot");
  const pulledAt = new Date().toISOString();
  for (const [letter, size] of [
    ["a", 10],
    ["b", 20],
    ["c", 30],
  ] as const)
    await writeFile(store.blobPath(digest(letter)), Buffer.alloc(size));
  const file = (letter: string, sizeBytes: number) => ({
    source: `https://h/${letter}`,
    name: letter,
    sha256: digest(letter),
    sizeBytes,
  });
  await store.install({ schema: 1, ref: "kept", files: [file("a", 10), file("b", 20)], pulledAt });
  await store.install({ schema: 1, ref: "other", files: [file("b", 20)], pulledAt });
  for (const source of ["https://h/paused", "https://h/模型"]) {
    const partial = store.partialDirectory(source);
    await mkdir(partial);
    await writeFile(join(partial, "data"), Buffer.alloc(8192, 1));
    await writePartial(partial, { content: { source, sizeBytes: 8192 }, marks: [8192] });
  }
  await mkdir(join(store.root, "models", "gone"));
  // No ref, but what a writer that was killed has left.
  await writeFile(join(store.root, "refs", ".kept.json.tmp"), "{");
  const collected = async (isDryRun: boolean, isFetching = false) =>
    await collect({
      store,
      active: () => new Set(["https://h/paused"]),
      isFetching: () => isFetching,
      isDryRun,
      signal: new AbortController().signal,
    });
  return { store, collected, [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose]() };
}

it("deletes what no model needs, and keeps the parts of a pull that is not over", async () => {
  await using at = await site();
  const dry = await at.collected(true);
  assert.deepEqual(
    dry.leftovers.map(({ kind, sizeBytes, source }) => [kind, sizeBytes, source]),
    [
      ["blob", 30, undefined],
      ["directory", 0, undefined],
      ["partial", 8192, "https://h/模型"],
    ],
  );
  assert.equal(dry.freedBytes, 0);
  assert.deepEqual(await at.collected(true), dry, "a dry run deletes nothing");
  const done = await at.collected(false);
  assert.deepEqual([done.leftovers, done.freedBytes, done.kept], [dry.leftovers, 8222, []]);
  for (const { path } of dry.leftovers) assert.equal(existsSync(path), false, path);
  assert.deepEqual((await at.collected(false)).leftovers, [], "the second time there is nothing");
  for (const letter of ["a", "b"]) assert.equal(existsSync(at.store.blobPath(digest(letter))), true);
  assert.equal(existsSync(at.store.partialDirectory("https://h/paused")), true);
});

it("keeps the content of a pull that came and ended during the search for leftovers", async () => {
  await using at = await site();
  const [content, pulledAt] = [at.store.blobPath(digest("c")), new Date().toISOString()];
  const store = {
    root: at.store.root,
    isUsed: (path: string) => at.store.isUsed(path),
    leftovers: async (active: ReadonlySet<string>) => {
      const found = await at.store.leftovers(active);
      const file = { source: "https://h/c", name: "c", sha256: digest("c"), sizeBytes: 30 };
      await at.store.install({ schema: 1, ref: "gone", files: [file], pulledAt });
      return found;
    },
  };
  const { signal } = new AbortController();
  const { leftovers } = await collect({
    store,
    active: () => new Set(),
    isFetching: () => false,
    isDryRun: false,
    signal,
  });
  assert.deepEqual(
    leftovers.map(({ kind }) => kind),
    ["directory", "partial", "partial"],
  );
  assert.ok(existsSync(content));
  const installed = at.store.find("gone");
  assert.ok(installed !== undefined && at.store.pathsOf(installed).every((path) => existsSync(path)));
});

it("keeps every content while a model is being fetched: it has no ref before its end", async () => {
  await using at = await site();
  const { leftovers, kept } = await at.collected(false, true);
  assert.deepEqual(
    leftovers.map(({ kind }) => kind),
    ["partial"],
  );
  assert.equal(kept.length, 2);
  assert.equal(existsSync(at.store.blobPath(digest("c"))), true);
});

it("keeps what cannot be deleted, and says why", async () => {
  await using at = await site();
  // The system removes no directory by this name of it.
  const path = `${at.store.root}/models/.`;
  const leftovers = async () => [{ kind: "directory", path, sizeBytes: 5 } as const];
  const store = { root: at.store.root, isUsed: () => false, leftovers };
  const { signal } = new AbortController();
  const found = await collect({ store, active: () => new Set(), isFetching: () => false, isDryRun: false, signal });
  assert.deepEqual([found.leftovers, found.freedBytes], [[], 0]);
  assert.match(found.kept[0]?.reason ?? "", /^E[A-Z]+: /);
});

it("counts the bytes that only one model has", async () => {
  await using at = await site();
  assert.deepEqual(
    ["kept", "other", "nobody"].map((ref) => exclusiveBytes(at.store, ref)),
    [10, 0, 0],
  );
});

it("no content is left over, and a removed ref leaves its own, where another ref cannot be read, which may need them", async () => {
  await using at = await site();
  const odd = join(at.store.root, "refs", "odd.json");
  await writeFile(odd, "{");
  assert.ok((await at.collected(true)).leftovers.every(({ kind }) => kind !== "blob"));
  assert.equal(await at.store.remove("kept"), 0);
  assert.equal(at.store.find("kept"), undefined);
  for (const letter of ["a", "b"]) assert.equal(existsSync(at.store.blobPath(digest(letter))), true, letter);
  await rm(odd);
  assert.equal(await at.store.remove("other"), 20);
  assert.deepEqual((await at.collected(true)).leftovers[0]?.path, at.store.blobPath(digest("a")));
});
