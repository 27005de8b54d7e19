import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { openFileSource } from "../../../src/store/files/file-source.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

const run = promisify(execFile);
const numbers = Array.from({ length: 60 }, (_, index) => index);

/** Branches of a configuration directory: which slots each has, and their model. */
const branches: Readonly<Record<string, { slots: readonly string[]; model: string }>> = {
  old: { slots: numbers.map((nth) => `s${nth}`), model: "old" },
  // Lacks ten, has ten more, and another text in every other file.
  next: { slots: numbers.map((nth) => (nth < 10 ? `t${nth}` : `s${nth}`)), model: "next" },
  // No name in common: Git removes the directory with its last file, and makes another.
  other: { slots: numbers.map((nth) => `u${nth}`), model: "other" },
};

test("git checkout of branches with many other manifests: none is lost on the way, none is wrong in the end", async () => {
  await using directory = await tempDir();
  const configDir = directory.path;
  const git = async (...args: readonly string[]): Promise<void> => {
    // Nothing of the machine's own settings.
    const env = { PATH: process.env["PATH"], HOME: configDir, GIT_CONFIG_NOSYSTEM: "1" };
    await run("git", ["-c", "user.name=x", "-c", "user.email=x@example.com", ...args], { cwd: configDir, env });
  };
  await git("init", "--quiet");
  for (const [branch, { slots, model }] of Object.entries(branches)) {
    await git("checkout", "--quiet", "--orphan", branch);
    await rm(join(configDir, "slots"), { recursive: true, force: true });
    await mkdir(join(configDir, "slots"));
    for (const name of slots)
      await writeFile(
        join(configDir, `slots/${name}.toml`),
        `[model]\ndefault = "${model}" # as in branch ${branch}\n`,
      );
    await git("add", "--all");
    await git("commit", "--quiet", "--message", branch);
  }
  await git("checkout", "--quiet", "old");
  const clock = { now: 1_000_000 };
  await using source = await openFileSource({ configDir, now: () => new Date(clock.now) });
  const names = (): string[] => source.list("Slot").map(({ name }) => name);
  const modelOf = (name: string): string | undefined => source.get("Slot", name)?.spec?.model.default;
  assert.deepEqual(names().toSorted(), branches["old"]?.slots.toSorted());

  let before: readonly string[] = [];
  const lost = new Set<string>();
  using _watching = source.watch((_kind, name) => {
    // Between two files Git may be kept waiting for as long as the system likes: a new one may be seen half.
    if (before.includes(name) && modelOf(name) === undefined) lost.add(name);
  });
  for (const branch of ["next", "other", "old"]) {
    const { slots, model } = branches[branch] ?? { slots: [], model: "" };
    before = names();
    await git("checkout", "--quiet", branch);
    await until(`the slots of ${branch} are there`, () => slots.every((name) => modelOf(name) === model));
    for (const name of before) if (modelOf(name) === undefined) lost.add(name);
    assert.deepEqual([...lost], [], "a removal waits, and what was good stays in force");
    before = [];
    await source.resync();
    clock.now += 2000;
    await source.resync();
    assert.deepEqual(names().toSorted(), slots.toSorted());
    const wrong = source.list("Slot").filter(({ diagnostics }) => diagnostics.length > 0);
    assert.deepEqual([source.problems(), wrong], [[], []]);
  }
});
