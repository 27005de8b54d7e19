import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { Complaints } from "../../src/operator/complaints.ts";

test("what is wrong is told once, and once that it was fixed", () => {
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(line) });
  const complaints = new Complaints(log);
  const problem = "/etc/berth/slots/a.toml:1:1: the value is missing";
  for (const problems of [[problem], [problem], [], []]) complaints.tell("manifests", problems);
  assert.equal(lines.length, 2);
  assert.ok(lines[0]?.includes(`"msg":"${problem}"`));
  assert.ok(lines[1]?.includes(`"msg":"fixed: ${problem}"`));
});
