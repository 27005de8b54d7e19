import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fc } from "../../support/fast-check.ts";
import { groupLoad, type GroupLoad } from "../groups/random-load.ts";
import { simulate } from "../groups/simulation.ts";
import { courses, recordOf } from "./courses.ts";

/**
 * The golden record: what an operator decided when the record was made, as text. A change that is to change no decision
 * leaves it as it is. For another, `BERTH_RECORD=1` writes it anew, and its difference lists what has changed.
 */
async function compare(file: string, made: readonly string[]): Promise<void> {
  const path = join(import.meta.dirname, file);
  const text = made.map((record, index) => `# ${index + 1}\n${record}`).join("");
  if (process.env["BERTH_RECORD"] !== undefined) await writeFile(path, text);
  const kept = (await readFile(path, "utf8")).split(/^# /m);
  // One by one: the difference of thousands of lines is shown too late.
  for (const [index, record] of text.split(/^# /m).entries()) assert.equal(record, kept[index]);
}

function grantsOf({ group, rules, requests }: GroupLoad): string {
  const lines = [
    JSON.stringify({ group, rules, requests }, (_key, value) => (value instanceof Map ? [...value] : value)),
  ];
  simulate(group, rules, requests, (slot, grant, now) => {
    lines.push(`${(now / 1000).toFixed(1).padStart(6)} ${slot} ${JSON.stringify(grant)}`);
  });
  return `${lines.join("\n")}\n`;
}

describe("the golden record of decisions", () => {
  it("holds for whole operators", async () => {
    const records: string[] = [];
    for (const course of courses) records.push(await recordOf(course));
    await compare("courses.txt", records);
  });

  it("holds for groups", async () => {
    await compare("groups.txt", fc.sample(groupLoad, { numRuns: 20, seed: 34 }).map(grantsOf));
  });
});
