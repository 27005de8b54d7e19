import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rename, stat, symlink, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { describe, it } from "node:test";
import { DirectoryWatch } from "../../../src/store/files/directory-watch.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

/** What a look hands over. */
async function identities(paths: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const found = paths.map(async (path) => [path, String((await stat(path)).ino)] as const);
  return new Map(await Promise.all(found));
}

/** Follows the directories, and waits until the watches stand. */
async function follow(watch: DirectoryWatch, hints: (string | undefined)[], paths: readonly string[]): Promise<void> {
  hints.length = 0;
  watch.follow(await identities(paths));
  await until("the watches stand", () => hints.includes(undefined));
}

/** Watches that the kernel holds for this process. */
async function kernelWatches(): Promise<number> {
  const files = await readdir("/proc/self/fdinfo");
  const texts = await Promise.all(files.map((file) => readFile(`/proc/self/fdinfo/${file}`, "utf8").catch(() => "")));
  return texts.join("\n").match(/^inotify wd:/gm)?.length ?? 0;
}

describe("watches of directories", () => {
  it("hold no watch for a file, and none after the end", async () => {
    await using dir = await tempDir();
    const slots = join(dir.path, "slots");
    await mkdir(join(slots, "below"), { recursive: true });
    for (let file = 0; file < 50; file++) await writeFile(join(slots, `s${file}.toml`), "");
    const before = await kernelWatches();
    const hints: (string | undefined)[] = [];
    {
      await using watch = new DirectoryWatch((path) => hints.push(path));
      await follow(watch, hints, [dir.path, slots]);
      const held = (await kernelWatches()) - before;
      assert.ok(held >= 2 && held <= 3, `two directories, and the parent that tells when they go: ${held}`);
    }
    assert.equal(await kernelWatches(), before);
  });

  it("name the file that is written, removed or renamed, by the path that was handed over", async () => {
    await using dir = await tempDir();
    const hints: (string | undefined)[] = [];
    await using watch = new DirectoryWatch((path) => hints.push(path));
    const slots = relative(process.cwd(), dir.path);
    await follow(watch, hints, [slots]);
    await writeFile(join(dir.path, "a.toml"), "");
    await until("the file is named", () => hints.includes(join(slots, "a.toml")));
    await rename(join(dir.path, "a.toml"), join(dir.path, "b.toml"));
    await until("the new name is named", () => hints.includes(join(slots, "b.toml")));
  });

  it("move to the directory to which a swapped link above leads, and leave the former directory", async () => {
    await using dir = await tempDir();
    const at = (...names: string[]): string => join(dir.path, ...names);
    for (const name of ["v1/slots/extra", "v2/slots/extra"]) await mkdir(at(name), { recursive: true });
    await symlink("v1", at("current"));
    // Not the directory of the link: its event would make chokidar look above.
    const watched = [at("current/slots"), at("current/slots/extra")];
    const hints: (string | undefined)[] = [];
    await using watch = new DirectoryWatch((path) => hints.push(path));
    await follow(watch, hints, watched);
    await symlink("v2", at("swapped"));
    await rename(at("swapped"), at("current"));
    await follow(watch, hints, watched);
    await writeFile(at("v1/slots/old.toml"), "");
    await writeFile(at("v2/slots/new.toml"), "");
    await until("what is made behind the new link is named", () => hints.includes(at("current/slots/new.toml")));
    assert.equal(hints.includes(at("current/slots/old.toml")), false);
  });
});
