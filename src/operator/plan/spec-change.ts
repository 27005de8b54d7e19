import { pathToToml } from "../../store/files/spelling.ts";

/** Fields whose values may hold a secret, or long text: only their names are shown. */
const namesOnly: ReadonlySet<string> = new Set(["env", "args", "command", "podTemplate", "mounts"]);
/** A longer list helps nobody. */
const most = 4;

const longestValue = 100;

interface Change {
  readonly path: readonly string[];
  readonly before: unknown;
  readonly after: unknown;
}

/**
 * The changes of an edit, for people: `model.context_size 4096 → 8192`, in the spelling of `file`. Undefined where both
 * are equal.
 */
export function specChange(before: object, after: object, file: string | undefined): string | undefined {
  const changes = [...changesIn(before, after, [])];
  if (changes.length === 0) return undefined;
  const words = changes.slice(0, most).map((change) => wordsOf(change, file));
  const more = changes.length - words.length;
  return `${words.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function* changesIn(before: unknown, after: unknown, path: readonly string[]): Generator<Change> {
  if (isMap(before) && isMap(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
      yield* changesIn(before[key], after[key], [...path, key]);
    }
  } else if (JSON.stringify(before) !== JSON.stringify(after)) yield { path, before, after };
}

function wordsOf({ path, before, after }: Change, file: string | undefined): string {
  const name = (/\.ya?ml$/.test(file ?? "") ? path : pathToToml(path)).join(".");
  const isNameOnly = path.some((part) => namesOnly.has(part));
  const [from, to] = [shortValue(before), shortValue(after)];
  return isNameOnly || from === undefined || to === undefined ? `${name} changed` : `${name} ${from} → ${to}`;
}

/** Undefined for a value that is too long. */
function shortValue(value: unknown): string | undefined {
  if (value === undefined) return "unset";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return typeof value === "string" && value.length <= longestValue ? value : undefined;
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
