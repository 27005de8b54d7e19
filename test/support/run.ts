/**
 * Runs the test files of the folders it is given. Starting Node and loading the modules of `src/` costs more than most
 * files, so many files share a process, one after the other; a file called `*.process.test.ts` has one of its own.
 *
 *   node test/support/run.ts --test-concurrency=3 test/api test/lib
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { tempDir } from "./temp-dir.ts";

/** Few enough that the processes get equal work. */
const filesPerProcess = 16;

const words = process.argv.slice(2);
const options = words.filter((word) => word.startsWith("--"));
const folders = words.filter((word) => !word.startsWith("--"));
const found = new Map(folders.map((folder) => [folder, globSync(join(folder, "**/*.test.{ts,mjs}")).toSorted()]));
const empty = folders.filter((folder) => found.get(folder)?.length === 0);
if (folders.length === 0 || empty.length > 0) {
  // Without a file, Node would run whatever it finds.
  console.error(folders.length === 0 ? "name folders with tests" : `no test file in ${empty.join(", ")}`);
  process.exitCode = 2;
} else process.exitCode = await runAll();

/** Resolves with the exit code; 1 for an end by a signal. */
async function runAll(): Promise<number> {
  await using directory = await tempDir();
  const files: string[] = [];
  for (const [folder, paths] of found) {
    const shared = paths.filter((path) => !path.includes(".process.test."));
    files.push(...paths.filter((path) => !shared.includes(path)));
    for (let first = 0; first < shared.length; first += filesPerProcess) {
      const imported = shared.slice(first, first + filesPerProcess);
      const program = join(directory.path, `${folder.replaceAll("/", "-")}${first / filesPerProcess + 1}.test.mjs`);
      await writeFile(program, imported.map((path) => `import "${pathToFileURL(resolve(path)).href}";\n`).join(""));
      files.push(program);
    }
  }
  const reporter = `--test-reporter=${join(import.meta.dirname, "reporter.ts")}`;
  const child = spawn(process.execPath, [...process.execArgv, "--test", reporter, ...options, ...files], {
    stdio: "inherit",
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
  const [code]: unknown[] = await once(child, "close");
  return typeof code === "number" ? code : 1;
}
