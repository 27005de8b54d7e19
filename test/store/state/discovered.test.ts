import assert from "node:assert/strict";
import { mkdir, readdir, readFile, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { DiscoveredStore } from "../../../src/store/state/discovered.ts";
import { tempDir } from "../../support/temp-dir.ts";

const dayMs = 24 * 3_600_000;
const url = "https://api.example.com/v1?key=query-secret-0123456789";

interface Site extends AsyncDisposable {
  readonly path: string;
  readonly errors: unknown[];
  now: number;
  open(): Promise<DiscoveredStore>;
  /** Everything that is kept, as text. */
  texts(): Promise<string[]>;
}

async function site(): Promise<Site> {
  const dir = await tempDir();
  const errors: unknown[] = [];
  const at: Site = {
    path: dir.path,
    errors,
    now: Date.UTC(2026, 10, 21),
    open: () => DiscoveredStore.open(dir.path, { onError: (error) => errors.push(error), now: () => at.now }),
    async texts() {
      const files = await readdir(join(dir.path, "discovered"));
      return await Promise.all(files.map((file) => readFile(join(dir.path, "discovered", file), "utf8")));
    },
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  };
  return at;
}

async function keep(at: Site, ...models: readonly string[]): Promise<void> {
  await using store = await at.open();
  store.keep("acme", url, models);
}

async function known(at: Site, upstream = "acme", baseUrl = url): Promise<readonly string[]> {
  await using store = await at.open();
  return store.get(upstream, baseUrl);
}

describe("what providers listed", () => {
  it("is there after a restart, for the same address of the same upstream alone", async () => {
    await using at = await site();
    assert.deepEqual(await known(at), []);
    await keep(at, "m1", "vendor/m2:free");
    assert.deepEqual(await known(at), ["m1", "vendor/m2:free"]);
    assert.deepEqual(await known(at, "other"), []);
    assert.deepEqual(await known(at, "acme", "https://another.example.com/v1"), []);
    assert.deepEqual(at.errors, []);
  });

  it("is kept without address or secret, for its owner and his group", async () => {
    await using at = await site();
    await keep(at, "m1");
    const [text, ...others] = await at.texts();
    assert.deepEqual(others, []);
    assert.equal(text, '{"schema":1,"upstream":"acme","listedAt":"2026-11-21T00:00:00.000Z","models":["m1"]}');
    const [file = ""] = await readdir(join(at.path, "discovered"));
    assert.doesNotMatch(file, /acme|example|secret/);
    assert.equal((await stat(join(at.path, "discovered", file))).mode & 0o777, 0o640);
  });

  it("does not expire while the provider goes on to list the same", async () => {
    await using at = await site();
    await keep(at, "m1");
    at.now += dayMs;
    await keep(at, "m1");
    at.now += 7 * dayMs;
    assert.deepEqual(await known(at), ["m1"]);
  });

  it("is not known for more than a week, nor from the future, and goes then", async () => {
    await using at = await site();
    await keep(at, "m1");
    at.now += 7 * dayMs;
    await using store = await at.open();
    assert.deepEqual(store.get("acme", url), ["m1"]);
    at.now += 1;
    assert.deepEqual(store.get("acme", url), [], "also while a gateway runs");
    assert.deepEqual(await known(at), []);
    assert.deepEqual(await at.texts(), []);
    await keep(at, "m1");
    at.now -= 8 * dayMs;
    assert.deepEqual(await known(at), []);
  });

  it("sets torn, foreign and special files aside, and continues without them", async () => {
    await using at = await site();
    await keep(at, "m1");
    const dir = join(at.path, "discovered");
    const [file = ""] = await readdir(dir);
    const whole = await readFile(join(dir, file), "utf8");
    await writeFile(join(dir, file), whole.slice(0, -3));
    await writeFile(join(dir, "other.json"), whole.replace('"schema":1', '"schema":2'));
    await mkdir(join(dir, "directory.json"));
    await writeFile(join(dir, ".left.tmp"), "half");
    await utimes(join(dir, ".left.tmp"), 1, 1);
    assert.deepEqual(await known(at), []);
    const aside = (await readdir(join(at.path, "aside"))).map((name) => name.replace(/^\d+-/, "")).toSorted();
    const names = [file, "directory.json", "other.json"].map((name) => `discovered-${name}`);
    assert.deepEqual(aside, names.toSorted());
    assert.deepEqual(await readdir(dir), []);
    assert.deepEqual(at.errors, []);
    await keep(at, "m1");
    assert.deepEqual(await known(at), ["m1"]);
  });

  it("does not prevent a start when there is no space for it", async () => {
    await using at = await site();
    await writeFile(join(at.path, "discovered"), "a file");
    await keep(at, "m1");
    assert.equal(at.errors.length, 2, "it could be neither read nor kept");
    assert.deepEqual(await known(at), []);
  });
});
