import type { z } from "zod";

/**
 * What Berth wrote down, as far as this version knows it: while versions mix, a field that a later one has added must
 * not make the whole unreadable. Undefined where anything else is wrong with it. For state that is read by another
 * process than its writer; what people write, and whatever grants or asks for something, is read strictly.
 */
export function knownPart<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> | undefined {
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const strange = read.error.issues.flatMap((issue) => (issue.code === "unrecognized_keys" ? [issue] : []));
  if (strange.length < read.error.issues.length) return undefined;
  const known = structuredClone(value);
  for (const { path, keys } of strange) {
    const holder = path.reduce<unknown>((at, part) => (isObject(at) ? at[part] : undefined), known);
    if (isObject(holder)) for (const key of keys) delete holder[key];
  }
  return schema.safeParse(known).data;
}

function isObject(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === "object" && value !== null;
}
