import { ApiError } from "../../api/errors.ts";

/**
 * A route in the router's spelling (`:name` is one segment, a final `*` the rest), or in people's (`{name}`, `{ref}`).
 */
interface KnownRoute {
  readonly method: string;
  readonly path: string;
  /** The path of the route for people, where the router's spelling differs. */
  readonly template?: string | undefined;
}

/**
 * The methods of the routes at this path, in alphabetical order; HEAD comes with GET. Of the matching routes the most
 * exact ones count: the name of a route is no ref.
 */
export function allowedMethods(routes: readonly KnownRoute[], path: string): string[] {
  const found = routes.flatMap(({ method, path: spelt, template = spelt }) => {
    const { pattern, rank } = matcherOf(template);
    return pattern.test(path) ? [{ method, rank }] : [];
  });
  const best = Math.min(...found.map(({ rank }) => rank));
  return [...new Set(found.filter(({ rank }) => rank === best).map(({ method }) => method))].toSorted();
}

/** The error for a known path with a wrong method. */
export function methodNotAllowed(path: string, methods: readonly string[]): ApiError {
  const allow = methods.join(", ");
  return new ApiError("system.method_not_allowed", {
    message: `${path.slice(0, 200)} takes ${allow}`,
    headers: { allow },
  });
}

interface Matcher {
  readonly pattern: RegExp;
  /** 0: a fixed path; 1: with names in it; 2: open at its end. */
  readonly rank: number;
}

const matchers = new Map<string, Matcher>();

function matcherOf(template: string): Matcher {
  let known = matchers.get(template);
  if (known === undefined) {
    const isOpen = /\*$|\{ref\}$/.test(template);
    const parts = template.split("/").map((part) => {
      if (part === "*" || part === "{ref}") return ".+";
      return part.startsWith(":") || part.startsWith("{") ? "[^/]+" : RegExp.escape(part);
    });
    const hasNames = /[:*{]/.test(template);
    known = { pattern: new RegExp(`^${parts.join("/")}$`, "s"), rank: isOpen ? 2 : hasNames ? 1 : 0 };
    matchers.set(template, known);
  }
  return known;
}
