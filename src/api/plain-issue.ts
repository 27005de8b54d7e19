import type { z } from "zod";

/**
 * Messages of the schema library are sentences; our schemas name the wanted value, such as `a whole number`, or say what must
 * be.
 */
export function isLibrarys(message: string): boolean {
  return /^[A-Z]/.test(message);
}

/** The schema library's type names, in words for people who write TOML, YAML and JSON. */
const typeWords: Readonly<Record<string, string>> = {
  array: "a list",
  bigint: "a whole number",
  boolean: "true or false",
  int: "a whole number",
  NaN: "no number",
  null: "null",
  number: "a number",
  object: "a map",
  record: "a map",
  string: "text",
};

/** The message of one issue. Messages of our schemas stay; those of the schema library become plain words. */
export function plainIssue(issue: z.core.$ZodIssue): string {
  if (!isLibrarys(issue.message)) return issue.message;
  if (issue.code === "invalid_type") return wrongType(issue);
  if (issue.code === "invalid_value") {
    const [only, ...others] = issue.values.map(String);
    return others.length === 0 ? `must be ${only ?? ""}` : `must be one of ${[only, ...others].join(", ")}`;
  }
  if (issue.code === "too_small")
    return bound(issue.inclusive === false ? "more than" : "at least", issue.minimum, issue.origin);
  if (issue.code === "too_big")
    return bound(issue.inclusive === false ? "less than" : "at most", issue.maximum, issue.origin);
  return issue.message;
}

/** An absent field is missing, whatever its type would be. */
function wrongType({ expected, message }: z.core.$ZodIssueInvalidType): string {
  const received = /received (-?\w+)$/.exec(message)?.[1] ?? "";
  if (received === "undefined") return "is required";
  // What TOML, YAML and JSON parsers make of `1e400` and of `inf`.
  if (received.endsWith("Infinity")) return "must be a finite number, and is beyond the range of numbers";
  if (expected === "int" && received === "number") return "must be a whole number, and has a fraction";
  const wanted = typeWords[expected];
  const given = typeWords[received];
  if (wanted === undefined) return message;
  return wanted === given || given === undefined ? `must be ${wanted}` : `must be ${wanted}, and is ${given}`;
}

function bound(words: string, limit: number | bigint, origin: string): string {
  const unit = limit === 1 || limit === 1n ? "" : "s";
  if (origin === "string") return `must have ${words} ${limit} character${unit}`;
  if (origin === "array" || origin === "set") return `must have ${words} ${limit} item${unit}`;
  return `must be ${words} ${limit}`;
}
