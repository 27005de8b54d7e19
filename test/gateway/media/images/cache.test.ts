import assert from "node:assert/strict";
import { readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ImageCache } from "../../../../src/gateway/media/images/cache.ts";
import { tempDir } from "../../../support/temp-dir.ts";

const limits = { maxFiles: 3, maxBytes: 1000 };

async function read(cache: ImageCache, name: string): Promise<string | undefined> {
  const found = await cache.open(name);
  if (found === undefined) return undefined;
  const text = await found.file.readFile("utf8");
  assert.equal(found.sizeBytes, text.length);
  await found.file.close();
  return text;
}

/** Puts one file that was last read that many seconds ago. */
async function aged(cache: ImageCache, dir: string, text: string, seconds: number): Promise<string> {
  const [name = ""] = await cache.put([Buffer.from(text)]);
  const then = Date.now() / 1000 - seconds;
  await utimes(join(dir, name), then, then);
  return name;
}

describe("ImageCache", () => {
  it("returns a stored image, under a name that cannot be guessed", async () => {
    await using dir = await tempDir();
    const cache = new ImageCache(join(dir.path, "images"));
    const names = await cache.put([Buffer.from("one"), Buffer.from("two")]);
    assert.equal(names.length, 2);
    for (const name of names) assert.match(name, /^[0-9a-f-]{36}\.png$/);
    assert.deepEqual(await Promise.all(names.map((name) => read(cache, name))), ["one", "two"]);
    assert.deepEqual((await readdir(join(dir.path, "images"))).toSorted(), names.toSorted());
  });

  it("removes the image that was read longest ago, not the oldest", async () => {
    await using dir = await tempDir();
    const cache = new ImageCache(dir.path, limits);
    const first = await aged(cache, dir.path, "first", 30);
    const second = await aged(cache, dir.path, "second", 20);
    const third = await aged(cache, dir.path, "third", 10);
    assert.equal(await read(cache, first), "first");
    const [fourth = ""] = await cache.put([Buffer.from("fourth")]);
    assert.equal(await read(cache, second), undefined);
    assert.deepEqual(new Set(await readdir(dir.path)), new Set([first, third, fourth]));
  });

  it("keeps to the bytes, too", async () => {
    await using dir = await tempDir();
    const cache = new ImageCache(dir.path, limits);
    const old = await aged(cache, dir.path, "o".repeat(400), 20);
    const newer = await aged(cache, dir.path, "n".repeat(400), 10);
    const [last = ""] = await cache.put([Buffer.from("l".repeat(500))]);
    assert.equal(await read(cache, old), undefined);
    assert.deepEqual(new Set(await readdir(dir.path)), new Set([newer, last]));
  });

  it("keeps the latest answer whole, beyond its bounds too", async () => {
    await using dir = await tempDir();
    const cache = new ImageCache(dir.path, { maxFiles: 1, maxBytes: 1 });
    const names = await cache.put([Buffer.from("one"), Buffer.from("two")]);
    assert.deepEqual(await Promise.all(names.map((name) => read(cache, name))), ["one", "two"]);
  });

  it("keeps the order, the bounds and foreign files over a restart", async () => {
    await using dir = await tempDir();
    await writeFile(join(dir.path, "notes.txt"), "mine");
    const before = new ImageCache(dir.path, limits);
    await aged(before, dir.path, "a", 30);
    const kept = [await aged(before, dir.path, "b", 20), await aged(before, dir.path, "c", 10)];
    const after = new ImageCache(dir.path, limits);
    const [last = ""] = await after.put([Buffer.from("d")]);
    assert.deepEqual(new Set(await readdir(dir.path)), new Set([...kept, last, "notes.txt"]));
  });

  it("removes the temporary files of a crashed writer", async () => {
    await using dir = await tempDir();
    const leftover = join(dir.path, ".x.png.tmp");
    await writeFile(leftover, "half");
    await utimes(leftover, 1, 1);
    const cache = new ImageCache(dir.path, limits);
    const names = await cache.put([Buffer.from("whole")]);
    assert.deepEqual(await readdir(dir.path), names);
  });

  it("lets a reader complete an image that is removed meanwhile", async () => {
    await using dir = await tempDir();
    const cache = new ImageCache(dir.path, { maxFiles: 1, maxBytes: 1000 });
    const [name = ""] = await cache.put([Buffer.from("still here")]);
    const found = await cache.open(name);
    await cache.put([Buffer.from("next")]);
    assert.equal(await found?.file.readFile("utf8"), "still here");
    await found?.file.close();
    assert.equal(await read(cache, name), undefined);
  });

  it("finds nothing outside", async () => {
    await using dir = await tempDir();
    await writeFile(join(dir.path, "secret.png"), "secret");
    const cache = new ImageCache(join(dir.path, "images"));
    await cache.put([Buffer.from("x")]);
    const uuid = "00000000-0000-4000-8000-000000000000";
    const outside = ["../secret.png", "..%2fsecret.png", "/etc/passwd", "", ".", "..", `${uuid}.png/../../secret.png`];
    for (const name of [...outside, `${uuid}.png\0`, `${uuid}.jpg`, uuid, `${uuid}.png`])
      assert.equal(await cache.open(name), undefined, name);
  });
});
