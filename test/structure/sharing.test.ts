import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { read, repositoryFiles } from "./tree.ts";

/** A file with one of these changes the process that it shares, or acts for all its files. */
const signs = [
  /^(?:const .*= )?await\b/m,
  /^(?:before|after)(?:Each)?\(/m,
  /\bprocess\.env(?:\.\w+|\[[^\]]+\]) =[^=]/,
  /\bprocess\.(?:chdir|umask|exit|abort)\(/,
  /\bmock\.(?:timers|module)\b/,
  /\bglobalThis\.\w+ =[^=]/,
];
const changesProcess = (text: string): boolean => signs.some((each) => each.test(text));

/** The folders of a variable of the Makefile. */
function foldersOf(variable: string): readonly string[] {
  const [, folders = ""] = new RegExp(`^${variable} := (.*)$`, "m").exec(read("Makefile") ?? "") ?? [];
  return folders.split(" ");
}

describe("test files that share a process", () => {
  it("leave it as it was; the others are called process.test", () => {
    const apart = new Set([...foldersOf("SYSTEM"), ...foldersOf("OTHER_SUITES")]);
    const shared = repositoryFiles().filter(
      (path) => /^test\/.*\.test\.ts$/.test(path) && !/\.process\./.test(path) && !apart.has(path.split("/")[1] ?? ""),
    );
    assert.ok(shared.length > 300, `${shared.length} files`);
    assert.deepEqual(
      shared.filter((path) => changesProcess(read(path) ?? "")),
      [],
    );
  });

  it("are found where they do not", () => {
    const set = "=";
    for (const text of ["before(async () => {", "const page = await read();", `process.env["A"] ${set} "1";`])
      assert.ok(changesProcess(text), text);
    for (const text of ["  before(async () => {", "  await read();", 'const path = process.env["PATH"];'])
      assert.ok(!changesProcess(text), text);
  });
});
