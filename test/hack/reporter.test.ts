import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { tempDir } from "../support/temp-dir.ts";

const failing = `
import { equal } from "node:assert/strict";
import { test } from "node:test";
test("good", () => undefined);
test("parent", async (t) => {
  await t.test("bad", () => equal(1, 2));
});
test("late", () => Promise.reject(new Error("in vain", { cause: new Error("nobody listens") })));
`;

const hanging = `
import { test } from "node:test";
setInterval(() => undefined, 1000);
test("hangs", () => new Promise(() => undefined));
`;

const left = `
import { before, describe, it } from "node:test";
describe("site", () => {
  before(() => {
    setInterval(() => undefined, 1000);
    throw new Error("no site");
  });
  it("is there", () => undefined);
});
`;

async function run(
  directory: string,
  planted: string,
  options: readonly string[] = [],
  stallMs = 300_000,
): Promise<{ code: unknown; text: string }> {
  const file = join(directory, "planted.test.mjs");
  await writeFile(file, planted);
  // This variable marks a process of a run, and would keep it from starting another run.
  const { NODE_TEST_CONTEXT: _context, ...env } = process.env;
  const args = ["--test", "--test-reporter=./test/support/reporter.ts", ...options, file];
  return await new Promise((resolve) =>
    execFile(process.execPath, args, { env: { ...env, BERTH_TEST_STALL_MS: String(stallMs) } }, (error, stdout) =>
      resolve({ code: error?.code, text: stdout }),
    ),
  );
}

it("ends a run whose file goes on after a test has timed out, and names both", async () => {
  await using directory = await tempDir();
  const { code, text } = await run(directory.path, hanging, ["--test-timeout=100"], 100);
  assert.equal(code, 1);
  assert.match(text, /^failed: .*planted\.test\.mjs:4 hangs\n {2}test timed out after 100ms$/m);
  assert.match(text, /^⚠ .*planted\.test\.mjs/m);
});

it("ends a run whose file goes on after a hook has failed, and names both", async () => {
  await using directory = await tempDir();
  const { code, text } = await run(directory.path, left, [], 100);
  assert.equal(code, 1);
  assert.match(text, /^failed: .*planted\.test\.mjs:3 site\n {2}failed running before hook\n {2}caused by: no site$/m);
  assert.match(text, /^⚠ .*planted\.test\.mjs/m);
});

it("names each failed test and why in the last lines of a run, which fails", async () => {
  await using directory = await tempDir();
  const { code, text } = await run(directory.path, failing);
  assert.equal(code, 1);
  const [report = "", ...failures] = text.split(/^failed: .*planted\.test\.mjs:/m);
  assert.match(report, /✔ good/);
  assert.deepEqual(failures, [
    "6 bad\n  Expected values to be strictly equal:\n  \n  1 !== 2\n",
    "8 late\n  in vain\n  caused by: nobody listens\n",
  ]);
});
