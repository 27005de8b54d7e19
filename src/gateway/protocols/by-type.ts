import { z } from "zod";
import { isServiceType } from "../../api/service-types.ts";
import { isRecord, ownEntry } from "../../lib/record.ts";
import { refused } from "./list-of.ts";

/**
 * The schema of an object that its `type` describes: each row is the schema of one type. `otherwise` gives the result
 * for every other type: clients of OpenAI and Anthropic learn new types with each release, and one of these must not
 * end a conversation.
 */
export function byType<Result>(
  rows: Readonly<Record<string, z.ZodType<Result>>>,
  otherwise: (type: string) => Result,
): z.ZodType<Result> {
  return z.looseObject({ type: z.string("must be a text") }).transform((value, context): Result => {
    const row = ownEntry(rows, value.type);
    if (row === undefined) return otherwise(typeName(value));
    const { data, error } = row.safeParse(value);
    if (error === undefined) return data;
    return refused(context, error);
  });
}

/** The type of a client's value without its date, if a protocol knows it: other values are not repeated. */
export function typeName(value: unknown): string {
  const type = isRecord(value) ? value["type"] : undefined;
  const name = typeof type === "string" ? type.replace(/_(?:\d{8}|\d{4}_\d{2}_\d{2})$/, "") : undefined;
  return isServiceType(name) ? name : "another type";
}
