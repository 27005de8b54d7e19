import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { z } from "zod";

const caseSchema = z.strictObject({
  /** Of the evaluation, after the first sample. */
  at: z.string(),
  why: z.string().default(""),
  /** A series and its samples, as promtool writes them. */
  given: z.array(z.string()),
  /** Each alert as `severity{labels} summary`; empty: it stays quiet. */
  fires: z.array(z.string()).default([]),
});

type AlertCase = z.infer<typeof caseSchema> & { readonly alert: string };

export function readAlertCases(): readonly AlertCase[] {
  const text = readFileSync(new URL("alert-cases.yaml", import.meta.url), "utf8");
  const all = z.record(z.string(), z.array(caseSchema)).parse(parse(text));
  return Object.entries(all).flatMap(([alert, cases]) => cases.map((each) => ({ alert, ...each })));
}
