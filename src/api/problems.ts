import type { z } from "zod";
import { ApiError } from "./errors.ts";
import { knownKeys, unknownKey } from "./known-keys.ts";
import { isLibrarys, plainIssue } from "./plain-issue.ts";

/** One problem of a body. The rejected value is never repeated. */
export interface Problem {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** Unknown keys per map: each is compared with all known keys, and nobody reads more messages. */
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
 * The problems that zod found, in files, bodies and settings alike. Of a union: the problems of the alternative that
 * matched furthest, else the expectations of all. An unknown key is a problem of its own, whose path ends in the key
 * and whose message names the nearest key that `schema` knows, each as `spell` writes it.
 */
export function problemsOf(
  error: z.core.$ZodError,
  schema?: z.ZodType,
  spell: (key: string) => string = (key) => key,
): Problem[] {
  return error.issues.flatMap((issue): Problem[] => {
    if (issue.code !== "unrecognized_keys") {
      const { path, message } = flatten(issue, []);
      return [{ path, message }];
    }
    const known = schema === undefined ? [] : knownKeys(schema, issue.path).map(spell);
    return issue.keys
      .slice(0, mostUnknown)
      .map((key) => ({ path: texts([...issue.path, key]), message: unknownKey(spell(key), known) }));
  });
}

interface Found extends Problem {
  /** The message is from our schemas, not from the library. */
  readonly isOwn: boolean;
}

function flatten(issue: z.core.$ZodIssue, before: readonly PropertyKey[]): Found {
  const path = texts([...before, ...issue.path]);
  const isOwn = !isLibrarys(issue.message);
  if (issue.code !== "invalid_union") return { path, message: plainIssue(issue), isOwn };
  const alternatives = issue.errors.flatMap((alternative) =>
    alternative.slice(0, 1).map((inner) => flatten(inner, path)),
  );
  const [deepest] = alternatives.toSorted((a, b) => b.path.length - a.path.length);
  if (deepest !== undefined && deepest.path.length > path.length) return deepest;
  if (deepest === undefined || isOwn) return { path, message: issue.message, isOwn };
  const own = alternatives.filter((alternative) => alternative.isOwn);
  const reported = own.length > 0 ? own : alternatives;
  return { path, message: [...new Set(reported.map(({ message }) => message))].join("; or "), isOwn: own.length > 0 };
}

function texts(path: readonly PropertyKey[]): (string | number)[] {
  return path.map((part) => (typeof part === "number" ? part : String(part)));
}
