import assert from "node:assert/strict";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { writeFileAtomic } from "../../src/lib/atomic-file.ts";
import { JsonDirectory } from "../../src/lib/json-directory.ts";
import { isRecord } from "../../src/lib/record.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const parse = (value: unknown): number | undefined =>
  isRecord(value) && typeof value["n"] === "number" ? value["n"] : undefined;

async function watched(prepare: (path: string) => Promise<void> = async () => undefined, sweepMs = 50) {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const path = join(dir.path, "values");
  await prepare(path);
  const told: string[] = [];
  const onChange = (names: readonly string[]): void => void told.push(...names);
  const directory = stack.use(await JsonDirectory.open<number>(path, { parse, onChange, sweepMs }));
  const owned = stack.move();
  return {
    path,
    directory,
    told,
    write: (name: string, text: string) => writeFileAtomic(join(path, name), text, { fsync: false }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

describe("JsonDirectory", () => {
  it("has the values at its opening, and reports later changes only", async () => {
    await using site = await watched(async (path) => {
      await mkdir(path);
      await writeFile(join(path, "a.json"), '{"n":1}');
    });
    assert.deepEqual([...site.directory.values()], [["a", 1]]);
    assert.deepEqual(site.told, []);
    await site.write("b.json", '{"n":2}');
    await until("it is told", () => site.told.includes("b"));
    await site.write("a.json", '{"n":3}');
    await until("it is told", () => site.told.includes("a"));
    assert.deepEqual(site.directory.get("a"), 3);
    await rm(join(site.path, "a.json"));
    await until("it is told", () => site.directory.get("a") === undefined);
    assert.deepEqual([...site.directory.values()], [["b", 2]]);
  });

  it("keeps the last good value of a file that is torn or of another kind", async () => {
    await using site = await watched();
    await site.write("a.json", '{"n":1}');
    await until("it is seen", () => site.directory.get("a") === 1);
    for (const text of ["", '{"n":', '{"m":1}', "null"]) {
      await site.write("a.json", text);
      await site.directory.scan();
      assert.equal(site.directory.get("a"), 1);
    }
    await site.write("a.json", '{"n":2}');
    await until("it is seen", () => site.directory.get("a") === 2);
  });

  it("does not report a file that was rewritten unchanged, nor foreign and hidden files", async () => {
    await using site = await watched();
    await site.write("a.json", '{"n":1}');
    await until("it is seen", () => site.told.length === 1);
    await site.write("a.json", '{"n":1}');
    await site.write(".b.json", '{"n":1}');
    await site.write("c.txt", '{"n":1}');
    await site.directory.scan();
    assert.deepEqual(site.told, ["a"]);
  });

  it("sees a change of the same size within the same millisecond", async () => {
    await using site = await watched();
    for (let n = 10; n < 60; n += 1) {
      await site.write("a.json", `{"n":${n}}`);
      await site.directory.scan();
      assert.equal(site.directory.get("a"), n);
    }
  });

  it("finds changes without events by its sweep, such as a replaced directory", async () => {
    await using site = await watched();
    await site.write("a.json", '{"n":1}');
    await until("it is seen", () => site.directory.get("a") === 1);
    const other = `${site.path}-other`;
    await mkdir(other);
    await writeFile(join(other, "b.json"), '{"n":2}');
    await rename(site.path, `${site.path}-old`);
    await rename(other, site.path);
    await until("it is seen", () => site.directory.get("b") === 2);
    assert.equal(site.directory.get("a"), undefined);
  });
});
