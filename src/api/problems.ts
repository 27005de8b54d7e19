import type { z } from "zod";
import { ApiError } from "./errors.ts";
import { knownKeys, unknownKey } from "./known-keys.ts";

/** One thing wrong with a body. The rejected value is never repeated. */
export interface Problem {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** Of one map: each is compared with all that are known, and nobody reads more. */
const mostUnknown = 100;

/** `dispatch.invalid_request` with `path` and `message` of the first problem, and the others under `more`. */
export function invalidRequest(problems: readonly Problem[]): ApiError {
  const [first = { path: [], message: "the body has the wrong shape" }, ...more] = problems;
  const where = first.path.length === 0 ? "" : `${first.path.join(".")}: `;
  return new ApiError("dispatch.invalid_request", {
    message: `${where}${first.message}`,
    details: { ...first, ...(more.length === 0 ? {} : { more: more.slice(0, 20) }) },
  });
}

/**
 * What zod found, in files, bodies and settings alike. Of a union: what the alternative says that got furthest, else what
 * all of them want. A key that is not known is a problem of its own, whose path ends in it and whose message names the
 * nearest one that `schema` knows, each as `spell` writes it.
 */
export function problemsOf(
  error: z.core.$ZodError,
  schema?: z.ZodType,
  spell: (key: string) => string = (key) => key,
): Problem[] {
  return error.issues.flatMap((issue): Problem[] => {
    if (issue.code !== "unrecognized_keys") return [flatten(issue, [])];
    const known = schema === undefined ? [] : knownKeys(schema, issue.path).map(spell);
    return issue.keys
      .slice(0, mostUnknown)
      .map((key) => ({ path: texts([...issue.path, key]), message: unknownKey(spell(key), known) }));
  });
}

function flatten(issue: z.core.$ZodIssue, before: readonly PropertyKey[]): Problem {
  const path = texts([...before, ...issue.path]);
  if (issue.code !== "invalid_union") return { path, message: plain(issue) };
  const alternatives = issue.errors.flatMap((alternative) =>
    alternative.slice(0, 1).map((inner) => flatten(inner, path)),
  );
  const [deepest] = alternatives.toSorted((a, b) => b.path.length - a.path.length);
  if (deepest !== undefined && deepest.path.length > path.length) return deepest;
  if (deepest === undefined || !isLibrarys(issue.message)) return { path, message: issue.message };
  const messages = [...new Set(alternatives.map(({ message }) => message))];
  const own = messages.filter((message) => !isLibrarys(message));
  return { path, message: (own.length > 0 ? own : messages).join("; or ") };
}

/** The schema library speaks in sentences, our schemas in words for what is wanted, such as `a whole number`. */
export function isLibrarys(message: string): boolean {
  return /^[A-Z]/.test(message);
}

function texts(path: readonly PropertyKey[]): (string | number)[] {
  return path.map((part) => (typeof part === "number" ? part : String(part)));
}

/** A field that is not there is missing, whatever type it should have had. */
function plain({ code, message }: z.core.$ZodIssue): string {
  return code === "invalid_type" && message.endsWith("received undefined") ? "is required" : message;
}
