import { invalidRequest } from "../../api/problems.ts";
import { isParseable, parsedBounds, parseJson } from "../../lib/json.ts";
import type { ScannedField } from "../../lib/json-scan.ts";
import { CheckBudget } from "./expansion.ts";
import { UnfitConstraint } from "./expression.ts";
import { checkField } from "./schema.ts";
import { fitTools } from "./tool-schemas.ts";

/** A tool's description may be long; fields that constrain answers are shorter. */
const sizeLimit = 1024 * 1024;

/**
 * Refuses grammars and schemas that would end an engine, or keep it busy for minutes: one request must not take it from
 * all other clients. Costs nothing for a body without such a field. Throws ApiError `dispatch.invalid_request`.
 */
export function checkConstraints(body: Buffer, fields: readonly ScannedField[]): void {
  if (fields.length === 0) return;
  const budget = new CheckBudget();
  const known = new Set<string>();
  for (const { name, start, end } of fields) {
    try {
      if (known.has(name)) throw new UnfitConstraint("must occur once");
      known.add(name);
      if (end - start > sizeLimit) throw new UnfitConstraint(`is longer than ${sizeLimit} bytes`);
      const value = body.subarray(start, end);
      if (!isParseable(value)) throw new UnfitConstraint(`holds more than ${parsedBounds}`);
      checkField(name, parseJson(value), budget);
    } catch (error) {
      if (!(error instanceof UnfitConstraint)) throw error;
      throw invalidRequest([{ path: [name], message: error.message }]);
    }
  }
}

/** The body with tools that every llama.cpp takes, after `checkConstraints`; undefined where it takes all as they are. */
export function withFitTools(
  body: Buffer,
  fields: readonly ScannedField[],
): { readonly body: Buffer; readonly leftOut: readonly string[] } | undefined {
  const field = fields.find(({ name }) => name === "tools");
  if (field === undefined) return undefined;
  const { start, end } = field;
  const fit = fitTools(parseJson(body.subarray(start, end)));
  if (fit === undefined) return undefined;
  const tools = Buffer.from(JSON.stringify(fit.tools));
  return { body: Buffer.concat([body.subarray(0, start), tools, body.subarray(end)]), leftOut: fit.leftOut };
}
