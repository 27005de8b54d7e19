import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { tempDir } from "../support/temp-dir.ts";

const program = fileURLToPath(new URL("../support/run.ts", import.meta.url));

interface RunOptions {
  readonly folder?: string;
  /** Stops the run as Ctrl-C does, once its output has this text. */
  readonly stopAt?: string;
  /** How long a run may stand still after a failure. */
  readonly stallMs?: number;
}

/** Runs planted files of `test/api`, which share a process, as `make test` runs its own. */
async function run(
  planted: Readonly<Record<string, string>>,
  options: readonly string[] = [],
  { folder: named = "test/api/", stopAt, stallMs = 300_000 }: RunOptions = {},
): Promise<{ code: unknown; text: string }> {
  await using directory = await tempDir();
  const folder = join(directory.path, "test/api");
  await mkdir(folder, { recursive: true });
  for (const [name, body] of Object.entries(planted))
    await writeFile(join(folder, `${name}.test.mjs`), `import { it } from "node:test";\nit("${name}", ${body});\n`);
  const { NODE_TEST_CONTEXT: _context, ...env } = process.env;
  const args = ["--disable-warning=ExperimentalWarning", program, ...options, named];
  return await new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      args,
      { cwd: directory.path, env: { ...env, BERTH_TEST_STALL_MS: String(stallMs) } },
      (error, stdout, stderr) => resolve({ code: error?.code ?? 0, text: stdout + stderr }),
    );
    let text = "";
    child.stdout?.on("data", (chunk: string) => {
      const before = text;
      text += chunk;
      if (stopAt !== undefined && text.includes(stopAt) && !before.includes(stopAt)) child.kill("SIGINT");
    });
  });
}

const pid = '() => console.log("process", process.pid)';

it("runs files of a folder that shares in one process", async () => {
  const { code, text } = await run({ one: pid, two: pid });
  assert.equal(code, 0);
  const pids = [...text.matchAll(/^process (\d+)$/gm)].map(([, each]) => each);
  assert.equal(pids.length, 2);
  assert.equal(new Set(pids).size, 1);
});

it("names the file and the test of a failure, and runs the other files of the process", async () => {
  const { code, text } = await run({ one: "() => Promise.reject(new Error('wrong'))", two: pid });
  assert.equal(code, 1);
  assert.match(text, /^failed: test\/api\/one\.test\.mjs:2 one\n {2}wrong$/m);
  assert.match(text, /✔ two/);
  assert.doesNotMatch(text, /runs alone now/);
});

it("names the test that hangs, and runs the other files of its process", async () => {
  const hang = "() => { setInterval(() => undefined, 1000); return new Promise(() => undefined); }";
  const { code, text } = await run({ first: pid, second: hang, third: pid }, ["--test-timeout=3000"], {
    stallMs: 3000,
  });
  assert.equal(code, 1);
  assert.match(text, /^failed: test\/api\/second\.test\.mjs:2 second\n {2}test timed out after 3000ms$/m);
  assert.match(text, /✔ first/);
  assert.match(text, /✔ third/);
});

/** The scan must not see what they do: it would give such a file a process of its own. */
const ends: readonly (readonly [what: string, body: string])[] = [
  ["that exits", "() => process['exit'](3)"],
  ["that exits with success", "() => process['exit'](0)"],
  ["that is killed", "() => process['kill'](process.pid, 'SIGKILL')"],
  ["that cannot be loaded", '() => undefined); import "./missing.mjs"; it("never", () => undefined'],
];
for (const [what, body] of ends)
  it(`runs the files of a process again, each alone, after the end of one ${what}`, async () => {
    const { code, text } = await run({ first: pid, second: body, third: pid }, ["--test-timeout=3000"]);
    assert.equal(code, 1);
    const [, again = ""] = text.split(/^not all tests of api have run; each of its files runs alone now$/m);
    assert.match(again, /✔ first/);
    assert.match(again, /✔ third/);
    if (!what.includes("success")) assert.match(again, /^failed: .*second\.test\.mjs:/m);
  });

it("begins no second run where a person stops the first", async () => {
  const hang =
    "() => { console.log('it runs'); setInterval(() => undefined, 1000); return new Promise(() => undefined); }";
  const { code, text } = await run({ first: pid, second: hang }, [], { stopAt: "it runs" });
  assert.notEqual(code, 0);
  assert.doesNotMatch(text, /runs alone now/);
});

it("refuses a folder without tests, instead of running whatever else there is", async () => {
  const { code, text } = await run({ first: pid }, [], { folder: "test/apii/" });
  assert.equal(code, 2);
  assert.equal(text, "no test file in test/apii/\n");
});
