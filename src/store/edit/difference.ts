import { canonicalJson } from "../../lib/canonical.ts";
import { isRecord } from "../../lib/record.ts";

/** One field to change; `value` undefined: to remove. */
export interface FieldChange {
  readonly path: readonly string[];
  readonly value: unknown;
}

/**
 * The fewest fields to change so that `before` equals `after`. Maps are compared field by field, other values as a
 * whole.
 */
export function differences(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
  base: readonly string[] = [],
): FieldChange[] {
  const changes: FieldChange[] = [];
  for (const key of Object.keys(before))
    if (after[key] === undefined) changes.push({ path: [...base, key], value: undefined });
  for (const [key, value] of Object.entries(after)) {
    if (value === undefined) continue;
    const old = before[key];
    if (isRecord(old) && isRecord(value)) changes.push(...differences(old, value, [...base, key]));
    else if (old === undefined || canonicalJson(old) !== canonicalJson(value))
      changes.push({ path: [...base, key], value });
  }
  return changes;
}

/** A value with fields changed: the expected value of an edited text. */
export function withChanges(value: unknown, changes: readonly FieldChange[]): unknown {
  let changed = value;
  for (const { path, value: field } of changes) changed = withField(changed, path, field);
  return changed;
}

/** Missing maps on the path are created. */
export function withField(value: unknown, [first, ...rest]: readonly string[], field: unknown): unknown {
  if (first === undefined) return field;
  const map: Readonly<Record<string, unknown>> = isRecord(value) ? value : {};
  if (rest.length > 0 || field !== undefined) return { ...map, [first]: withField(map[first], rest, field) };
  const { [first]: _gone, ...others } = map;
  return others;
}
