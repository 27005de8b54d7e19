/**
 * Runs the test files of the folders it is given, of which many share a process (`groups.ts`). Where such a process has
 * not come to its end, each of its files is run again in a process of its own: the end of one file hides no other.
 *
 *   node test/support/run.ts --test-concurrency=3 test/api test/lib
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { groupsOf, type Group } from "./groups.ts";
import { tempDir } from "./temp-dir.ts";

const words = process.argv.slice(2);
const options = words.filter((word) => word.startsWith("--"));
const folders = words.filter((word) => !word.startsWith("--"));
const found = folders.map((folder) => ({ folder, paths: globSync(join(folder, "**/*.test.{ts,mjs}")) }));
const empty = found.filter(({ paths }) => paths.length === 0).map(({ folder }) => folder);
let wasStopped = false;
if (folders.length === 0 || empty.length > 0) {
  // Without a file, Node would run whatever it finds.
  console.error(folders.length === 0 ? "name folders with tests" : `no test file in ${empty.join(", ")}`);
  process.exitCode = 2;
} else process.exitCode = await runAll(found.flatMap(({ paths }) => paths));

async function runAll(files: readonly string[]): Promise<number> {
  await using directory = await tempDir();
  const { groups, alone } = groupsOf(Object.fromEntries(files.map((path) => [path, readFileSync(path, "utf8")])));
  const shared = groups.map((group) => ({ group, path: join(directory.path, `${group.name}.mjs`) }));
  for (const { group, path } of shared) await writeFile(path, programOf(group, endOf(path)));
  const code = await runFiles([...shared.map(({ path }) => path), ...alone]);
  const unfinished = shared.filter(({ path }) => !existsSync(endOf(path)));
  if (wasStopped) return code || 1;
  if (unfinished.length === 0) return code;
  for (const { group } of unfinished)
    console.log(`not all tests of ${group.name} have run; each of its files runs alone now`);
  return (await runFiles(unfinished.flatMap(({ group }) => group.paths))) || code || 1;
}

/** The file that a group leaves when all its tests have come to their ends. */
function endOf(path: string): string {
  return `${path}.ended`;
}

function programOf({ paths: members }: Group, end: string): string {
  return [
    'import { writeFileSync } from "node:fs";',
    'import { after } from "node:test";',
    ...members.map((path) => `import ${JSON.stringify(pathToFileURL(resolve(path)).href)};`),
    `after(() => writeFileSync(${JSON.stringify(end)}, ""));`,
    "",
  ].join("\n");
}

/** Resolves with the exit code; 1 for an end by a signal. */
async function runFiles(files: readonly string[]): Promise<number> {
  const reporter = `--test-reporter=${join(import.meta.dirname, "reporter.ts")}`;
  const child = spawn(process.execPath, [...process.execArgv, "--test", reporter, ...options, ...files], {
    stdio: "inherit",
  });
  const forward = (signal: NodeJS.Signals): void => {
    wasStopped = true;
    child.kill(signal);
  };
  process.on("SIGINT", forward).on("SIGTERM", forward);
  const [code]: unknown[] = await once(child, "close");
  process.off("SIGINT", forward).off("SIGTERM", forward);
  return typeof code === "number" ? code : 1;
}
