import { z } from "zod";

/**
 * The schema of a list that is refused at its first wrong item. `z.array(item)` goes on and makes an issue for each: a body
 * may hold 100,000 wrong items, which takes half a second. `message` is the problem of a value that is no list.
 */
export function listOf<Item>(item: z.ZodType<Item>, message?: string): z.ZodType<Item[]> {
  return z.array(z.unknown(), message).transform((values, context) => {
    const items: Item[] = [];
    for (const [at, value] of values.entries()) {
      const { data, error } = item.safeParse(value);
      if (error !== undefined) return refused(context, error, [at]);
      items.push(data);
    }
    return items;
  });
}

/** The result for a value with a wrong part: the part's issues, with its path before theirs. */
export function refused(context: z.RefinementCtx, error: z.ZodError, path: readonly (string | number)[] = []): never {
  for (const issue of error.issues) context.addIssue({ ...issue, path: [...path, ...issue.path] });
  return z.NEVER;
}
