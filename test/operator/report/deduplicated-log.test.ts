import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { DeduplicatedLog } from "../../../src/operator/report/deduplicated-log.ts";

test("a problem is logged once, and its end once", () => {
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(line) });
  const problemLog = new DeduplicatedLog(log);
  const problem = "/etc/berth/slots/a.toml:1:1: the value is missing";
  for (const problems of [[problem], [problem], [], []]) problemLog.report("manifests", problems);
  assert.equal(lines.length, 2);
  assert.ok(lines[0]?.includes(`"msg":"${problem}"`));
  assert.ok(lines[1]?.includes(`"msg":"fixed: ${problem}"`));
});
