import type { z } from "zod";

type Path = readonly PropertyKey[];

export interface Tolerance {
  /** What stands for a required value that this version does not know; undefined: its holder goes. */
  readonly instead?: (path: Path, whole: unknown) => unknown;
  /** Hears of each value that this version does not know, as `status.state = "hibernating"`. */
  readonly onUnknown?: (what: string) => void;
}

/**
 * What Berth wrote down, as far as this version knows it: while versions mix, a field or a value that a later one has
 * added must not make the whole unreadable. An unknown field goes. An unknown value of a fixed set, such as a capability,
 * goes too: from a list alone, else with the smallest part that cannot be without it. Undefined where anything else is
 * wrong. For state that is read by another process than its writer; what people write, and whatever grants or asks for
 * something, is read strictly.
 */
export function knownPart<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  { instead, onUnknown }: Tolerance = {},
): z.output<Schema> | undefined {
  const first = schema.safeParse(value);
  if (first.success) return first.data;
  let { issues } = first.error;
  const known = structuredClone(value);
  for (let round = 0; round < roundLimit; round++) {
    // From the end: what goes from a list moves only what was looked at.
    for (const issue of issues.toReversed()) {
      if (issue.code === "unrecognized_keys") {
        const holder = at(known, issue.path);
        if (!isObject(holder)) return undefined;
        for (const key of issue.keys) delete holder[key];
        continue;
      }
      const isUnknown = issue.code === "invalid_value" || issue.code === "invalid_union";
      // In later rounds only what has gone is missed.
      if (round === 0 && (!isUnknown || at(known, issue.path) === undefined)) return undefined;
      const gone = removed(known, issue.path, instead);
      if (gone === undefined) return undefined;
      if (round === 0)
        onUnknown?.(`${issue.path.map(String).join(".")} = ${JSON.stringify(gone.value)?.slice(0, 200)}`);
    }
    const again = schema.safeParse(known);
    if (again.success) return again.data;
    issues = again.error.issues;
  }
  return undefined;
}

/** What holds it goes with it, level by level: state is not nested deeper. */
const roundLimit = 8;

/** Takes away what is at the path or, where nothing is, the nearest part that holds it. Undefined: that is all there is. */
function removed(whole: unknown, path: Path, instead: Tolerance["instead"]): { readonly value: unknown } | undefined {
  for (let length = path.length; length > 0; length--) {
    const key = path[length - 1];
    const holder = at(whole, path.slice(0, length - 1));
    if (key === undefined || !isObject(holder) || holder[key] === undefined) continue;
    const value = holder[key];
    const substitute = instead?.(path.slice(0, length), whole);
    if (substitute !== undefined && substitute !== value) holder[key] = substitute;
    else if (Array.isArray(holder)) holder.splice(Number(key), 1);
    else delete holder[key];
    return { value };
  }
  return undefined;
}

function at(whole: unknown, path: Path): unknown {
  return path.reduce<unknown>((holder, part) => (isObject(holder) ? holder[part] : undefined), whole);
}

function isObject(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === "object" && value !== null;
}
