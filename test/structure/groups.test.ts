import assert from "node:assert/strict";
import { posix } from "node:path";
import { describe, it } from "node:test";
import { groupsOf, needsOwnProcess, sharedFolders } from "../support/groups.ts";
import { importsOf } from "./imports.ts";
import { read, repositoryFiles } from "./tree.ts";

const tests = repositoryFiles().filter((path) => /^test\/.*\.test\.ts$/.test(path));
const { groups, alone } = groupsOf(Object.fromEntries(tests.map((path) => [path, read(path) ?? ""])));
const shared = groups.flatMap(({ paths }) => paths);

/** Modules of tests that look as if they changed or measured the process that imports them, and why they do not. */
const harmless: Readonly<Record<string, string>> = {
  "test/doubles/wire.ts": "ends its process where it was started as a program",
  "test/hardware/tree.ts": "names files of a tree that it makes",
  "test/hardware/h100-machine.ts": "awaits a file of the fixtures",
};

describe("test files that share a process", () => {
  it("are each in one group, and every other file has a process of its own", () => {
    assert.deepEqual([...shared, ...alone].toSorted(), tests.toSorted());
  });

  it("are of the folders that may share, each of which has some", () => {
    const folders = new Set(shared.map((path) => path.split("/")[1] ?? ""));
    assert.deepEqual([...folders].toSorted(), [...sharedFolders].toSorted());
  });

  it("import nothing that changes or measures its process", () => {
    const found = importedBy(shared).filter((path) => needsOwnProcess(read(path) ?? ""));
    assert.deepEqual(found.toSorted(), Object.keys(harmless).toSorted());
  });

  const planted: readonly (readonly [text: string, isAlone: boolean])[] = [
    ['process.env["SVC_HOST"] = "::1";', true],
    ['process.env.SVC_HOST = "::1";', true],
    ['delete process.env["SVC_HOST"];', true],
    ['Object.assign(process.env, { SVC_HOST: "::1" });', true],
    ['process.chdir("/");', true],
    ['process.on("SIGTERM", stop);', true],
    ["process.exitCode = 1;", true],
    ["process.seteuid?.(65534);", true],
    ['process.kill(process.pid, "SIGUSR1");', true],
    ['mock.timers.enable({ apis: ["setTimeout"] });', true],
    ['t.mock.method(fs, "rename", fail);', true],
    ["globalThis.fetch = answer;", true],
    ["process.memoryUsage().rss", true],
    ['readdirSync("/proc/self/fd")', true],
    ['import { withoutFiles } from "../support/out-of-files.ts";', true],
    ["before(async () => {", true],
    ["const server = await listen();", true],
    ['const env = { PATH: process.env["PATH"] };', false],
    ['assert.equal(process.env["PATH"] === undefined, false);', false],
    ["const answer = mock.fn();", false],
    ['process.kill(child.pid, "SIGKILL");', false],
    ["  before(async () => {", false],
    ["  const server = await listen();", false],
  ];
  for (const [text, isAlone] of planted)
    it(`are ${isAlone ? "none" : "those, too,"} with ${text}`, () => assert.equal(needsOwnProcess(text), isAlone));
});

/** Modules below `test/` that are loaded with these. */
function importedBy(paths: readonly string[]): string[] {
  const found = new Set<string>();
  const visit = (path: string): void => {
    for (const { specifier, isTypeOnly } of importsOf(read(path) ?? "")) {
      const target = posix.join(posix.dirname(path), specifier);
      if (isTypeOnly || !specifier.startsWith(".") || !target.startsWith("test/") || found.has(target)) continue;
      found.add(target);
      visit(target);
    }
  };
  paths.forEach(visit);
  return [...found];
}
