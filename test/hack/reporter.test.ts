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

it("names each failed test and why in the last lines of a run, which fails", async () => {
  await using directory = await tempDir();
  const file = join(directory.path, "planted.test.mjs");
  await writeFile(file, failing);
  // What marks a process as one of a run's own would keep it from starting another.
  const { NODE_TEST_CONTEXT: _context, ...env } = process.env;
  const args = ["--test", "--test-reporter=./test/support/reporter.ts", file];
  const { code, text } = await new Promise<{ code: unknown; text: string }>((resolve) =>
    execFile(process.execPath, args, { env }, (error, stdout) => resolve({ code: error?.code, text: stdout })),
  );
  assert.equal(code, 1);
  const [report = "", ...failures] = text.split(/^failed: .*planted\.test\.mjs:/m);
  assert.match(report, /✔ good/);
  assert.deepEqual(failures, [
    "6 bad\n  Expected values to be strictly equal:\n  \n  1 !== 2\n",
    "8 late\n  in vain\n  caused by: nobody listens\n",
  ]);
});
