import { z } from "zod";

/** So many items are parsed at once: item by item takes twice the time. */
const sliceItems = 100;

/**
 * The schema of a list that is refused at its first wrong item. `z.array(item)` goes on and makes an issue for each: a body
 * may hold 100,000 wrong items, which takes half a second. `message` is the problem of a value that is no list.
 */
export function listOf<Item>(item: z.ZodType<Item>, message?: string): z.ZodType<Item[]> {
  const list = z.array(item, message);
  return z.unknown().transform((value, context) => {
    const values: readonly unknown[] | undefined = Array.isArray(value) ? value : undefined;
    const items: Item[] = [];
    let start = 0;
    do {
      const { data, error } = list.safeParse(values?.slice(start, start + sliceItems) ?? value);
      if (error !== undefined) return refusedFirst(context, error, start);
      items.push(...data);
      start += sliceItems;
    } while (start < (values?.length ?? 0));
    return items;
  });
}

/** `start`: the place of the slice in the list. */
function refusedFirst(context: z.RefinementCtx, { issues }: z.ZodError, start: number): never {
  const first = issues[0]?.path[0];
  for (const issue of issues) {
    const [at, ...path] = issue.path;
    if (at === first) context.addIssue({ ...issue, path: typeof at === "number" ? [start + at, ...path] : issue.path });
  }
  return z.NEVER;
}

/** The result for a value with a wrong part: the part's issues. */
export function refused(context: z.RefinementCtx, error: z.ZodError): never {
  for (const issue of error.issues) context.addIssue({ ...issue });
  return z.NEVER;
}
