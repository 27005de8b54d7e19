import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { tempDir } from "../support/temp-dir.ts";

const program = fileURLToPath(new URL("../support/run.ts", import.meta.url));

interface RunOptions {
  readonly options?: readonly string[];
  readonly folder?: string;
  /** How long a run may stand still after a failure. */
  readonly stallMs?: number;
}

/** Runs planted files, by name and text, as `make test` runs its own. */
async function run(
  planted: Readonly<Record<string, string>>,
  { options = [], folder: named = "test/api/", stallMs = 300_000 }: RunOptions = {},
): Promise<{ code: unknown; text: string }> {
  await using directory = await tempDir();
  const folder = join(directory.path, "test/api");
  await mkdir(folder, { recursive: true });
  for (const [name, text] of Object.entries(planted))
    await writeFile(join(folder, `${name}.test.mjs`), `import { before, describe, it } from "node:test";\n${text}\n`);
  // This variable marks a process of a run, and would keep it from starting another run.
  const { NODE_TEST_CONTEXT: _context, ...env } = process.env;
  const args = ["--disable-warning=ExperimentalWarning", program, ...options, named];
  return await new Promise((resolve) =>
    execFile(
      process.execPath,
      args,
      { cwd: directory.path, env: { ...env, BERTH_TEST_STALL_MS: String(stallMs) } },
      (error, stdout, stderr) => resolve({ code: error?.code ?? 0, text: stdout + stderr }),
    ),
  );
}

const pid = (name: string): string => `it("${name}", () => console.log("process", process.pid));`;
const forEver = "setInterval(() => undefined, 1000);";

it("runs the files of a folder in one process, and one called process.test in its own", async () => {
  const { code, text } = await run({ one: pid("one"), two: pid("two"), "odd.process": pid("odd") });
  assert.equal(code, 0, text);
  const pids = [...text.matchAll(/^process (\d+)$/gm)].map(([, each]) => each);
  assert.deepEqual([pids.length, new Set(pids).size], [3, 2]);
});

it("tells the slowest files and tests", async () => {
  const wait = (name: string, ms: number): string =>
    `it("${name}", () => new Promise((resolve) => setTimeout(resolve, ${ms})));`;
  const { text } = await run({ quick: wait("quick", 0), slow: wait("slow", 600) });
  const [, files = "", tests = ""] = text.split(/^slowest (?:files|tests).*\n/m);
  assert.match(files, /^ +\d+\.\d s {2}test\/api\/slow\.test\.mjs\n +\d+\.\d s {2}test\/api\/quick\.test\.mjs\n/);
  assert.match(tests, /^ +\d+\.\d s {2}test\/api\/slow\.test\.mjs:2 slow\n/);
});

it("names each failed test and why in its last lines, and runs the other files", async () => {
  const failing = `
describe("parent", () => {
  it("bad", () => Promise.reject(new Error("wrong", { cause: new Error("nobody listens") })));
});`;
  const { code, text } = await run({ one: failing, two: pid("two") });
  assert.equal(code, 1);
  assert.match(text, /✔ two/);
  assert.match(text, /\n\nfailed: test\/api\/one\.test\.mjs:4 bad\n {2}wrong\n {2}caused by: nobody listens\n$/);
});

describe("a file that ends before its tests is a failure", () => {
  const ends: readonly (readonly [what: string, body: string])[] = [
    ["exits", "process.exit(3)"],
    ["exits with success", "process.exit(0)"],
    ["is killed", 'process.kill(process.pid, "SIGKILL")'],
  ];
  for (const [what, body] of ends)
    it(`where it ${what}`, async () => {
      const { code, text } = await run({ first: pid("first"), second: `it("second", () => ${body});` });
      assert.equal(code, 1);
      assert.match(text, /^failed: .*test-api-1\.test\.mjs/m);
    });

  it("where it cannot be loaded", async () => {
    const { code, text } = await run({ "first.process": 'import "./missing.mjs";' });
    assert.equal(code, 1);
    assert.match(text, /^failed: test\/api\/first\.process\.test\.mjs/m);
  });
});

describe("a run whose file goes on is ended, and names what failed,", () => {
  it("after a test that has timed out", async () => {
    const hangs = `${forEver}\nit("hangs", () => new Promise(() => undefined));`;
    const { code, text } = await run({ hangs }, { options: ["--test-timeout=500"], stallMs: 500 });
    assert.equal(code, 1);
    assert.match(text, /^failed: test\/api\/hangs\.test\.mjs:3 hangs\n {2}test timed out after 500ms$/m);
  });

  it("after a hook that has failed", async () => {
    const left = `describe("site", () => {
  before(() => {
    ${forEver}
    throw new Error("no site");
  });
  it("is there", () => undefined);
});`;
    const { code, text } = await run({ left }, { stallMs: 500 });
    assert.equal(code, 1);
    assert.match(text, /^failed: .*left\.test\.mjs:2 site\n {2}failed running before hook\n {2}caused by: no site$/m);
  });
});

it("refuses a folder without tests, instead of running whatever else there is", async () => {
  const { code, text } = await run({ first: pid("first") }, { folder: "test/apii/" });
  assert.equal(code, 2);
  assert.equal(text, "no test file in test/apii/\n");
});
