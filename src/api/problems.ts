import type { z } from "zod";
import { ApiError } from "./errors.ts";

/** One thing wrong with a body. The rejected value is never repeated. */
export interface Problem {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** `dispatch.invalid_request` with `path` and `message` of the first problem, and the others under `more`. */
export function invalidRequest(problems: readonly Problem[]): ApiError {
  const [first = { path: [], message: "the body has the wrong shape" }, ...more] = problems;
  const where = first.path.length === 0 ? "" : `${first.path.join(".")}: `;
  return new ApiError("dispatch.invalid_request", {
    message: `${where}${first.message}`,
    details: { ...first, ...(more.length === 0 ? {} : { more: more.slice(0, 20) }) },
  });
}

/** What zod found, of a union the alternative that got furthest. */
export function problemsOf(error: z.core.$ZodError): Problem[] {
  return error.issues.map((issue) => flatten(issue, []));
}

function flatten(issue: z.core.$ZodIssue, before: readonly PropertyKey[]): Problem {
  const path = [...before, ...issue.path];
  if (issue.code === "invalid_union") {
    const [deepest] = issue.errors
      .flatMap((alternative) => alternative.slice(0, 1).map((inner) => flatten(inner, path)))
      .toSorted((a, b) => b.path.length - a.path.length);
    if (deepest !== undefined && deepest.path.length > path.length) return deepest;
  }
  return { path: path.map((part) => (typeof part === "number" ? part : String(part))), message: issue.message };
}
