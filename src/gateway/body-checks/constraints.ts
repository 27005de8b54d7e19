import { invalidRequest } from "../../api/problems.ts";
import { isParseable, parsedBounds, parseExactJson, parseJson } from "../../lib/json.ts";
import type { ScannedField } from "../../lib/json-scan.ts";
import { LengthBudget, UnfitConstraint } from "./expression.ts";
import { checkField } from "./schema.ts";
import { fitTools } from "./tool-schemas.ts";

/** A tool's description may be long; fields that constrain answers are shorter. */
const sizeLimit = 1024 * 1024;

/** The tools of a body, parsed, and where they stand in it. */
export interface BodyTools {
  readonly value: unknown;
  readonly start: number;
  readonly end: number;
}

/** The tools of a body; undefined without any, and for more than may be parsed. */
export function toolsIn(body: Buffer, fields: readonly ScannedField[]): BodyTools | undefined {
  const field = fields.find(({ name }) => name === "tools");
  if (field === undefined) return undefined;
  const bytes = body.subarray(field.start, field.end);
  return isParseable(bytes) ? { ...field, value: parseJson(bytes) } : undefined;
}

/**
 * Refuses grammars and schemas that would end an engine, or keep it busy for minutes: one request must not take it from
 * all other clients. Costs nothing for a body without such a field. Returns the body's tools, which it has parsed. Throws
 * ApiError `dispatch.invalid_request`.
 */
export function checkConstraints(body: Buffer, fields: readonly ScannedField[]): BodyTools | undefined {
  if (fields.length === 0) return undefined;
  let tools: BodyTools | undefined;
  const budget = new LengthBudget();
  for (const { name, start, end } of fields) {
    try {
      if (end - start > sizeLimit) throw new UnfitConstraint(`is longer than ${sizeLimit} bytes`);
      const bytes = body.subarray(start, end);
      if (!isParseable(bytes)) throw new UnfitConstraint(`holds more than ${parsedBounds}`);
      const value = parseJson(bytes);
      checkField(name, value, budget);
      if (name === "tools") tools = { value, start, end };
    } catch (error) {
      if (!(error instanceof UnfitConstraint)) throw error;
      throw invalidRequest([{ path: [name], message: error.message }]);
    }
  }
  return tools;
}

/** The body with tools that every llama.cpp takes; undefined where it takes all as they are. */
export function withFitTools(
  body: Buffer,
  { value, start, end }: BodyTools,
): { readonly body: Buffer; readonly leftOut: readonly string[] } | undefined {
  if (fitTools(value) === undefined) return undefined;
  // Written again: with numbers that a double cannot hold.
  const fit = fitTools(parseExactJson(body.subarray(start, end)));
  if (fit === undefined) return undefined;
  const tools = Buffer.from(JSON.stringify(fit.tools));
  return { body: Buffer.concat([body.subarray(0, start), tools, body.subarray(end)]), leftOut: fit.leftOut };
}
