import type { z } from "zod";

type Path = readonly PropertyKey[];

export interface Tolerance {
  /**
   * The replacement for a required value that this version does not know; undefined: the object around it is removed.
   */
  readonly instead?: (path: Path, whole: unknown) => unknown;
  /** Called with each value that this version does not know, as `status.state = "hibernating"`. */
  readonly onUnknown?: (what: string) => void;
}

/**
 * The part of a state file that this version knows: while versions mix, a field or a value of a later version must not
 * make the whole file unreadable. An unknown field is removed. An unknown value of a fixed set, such as a capability,
 * is removed too: from a list alone, else with the smallest part that requires it. Undefined for any other fault. For
 * state that another process reads than wrote it; manifests, and files that grant or request something, are read
 * strictly.
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
    // From the end: removing an item of a list then moves only items that are already checked.
    for (const issue of issues.toReversed()) {
      if (issue.code === "unrecognized_keys") {
        const holder = at(known, issue.path);
        if (!isObject(holder)) return undefined;
        for (const key of issue.keys) delete holder[key];
        continue;
      }
      const isUnknown = issue.code === "invalid_value" || issue.code === "invalid_union";
      // In later rounds a missing value is expected, since earlier rounds removed it.
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

/** The object around a removed value is removed with it, level by level: state is not nested deeper than this. */
const roundLimit = 8;

/**
 * Removes the value at the path or, where nothing is there, the nearest part around it. Undefined: that part is the
 * whole.
 */
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
