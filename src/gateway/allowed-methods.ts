import { ApiError } from "../api/errors.ts";

/** A route as routers spell it: `:name` is one segment, a final `*` the rest. */
interface KnownRoute {
  readonly method: string;
  readonly path: string;
}

/** The methods that some route takes at this path, in the order of the alphabet; HEAD goes with GET. */
export function allowedMethods(routes: readonly KnownRoute[], path: string): string[] {
  const segments = path.split("/");
  const methods = routes.filter((route) => isAt(route.path.split("/"), segments)).map(({ method }) => method);
  return [...new Set(methods)].toSorted();
}

/** What a request gets whose path is right and whose method is not. */
export function methodNotAllowed(path: string, methods: readonly string[]): ApiError {
  const allow = methods.join(", ");
  return new ApiError("system.method_not_allowed", {
    message: `${path.slice(0, 200)} takes ${allow}`,
    headers: { allow },
  });
}

function isAt(pattern: readonly string[], segments: readonly string[]): boolean {
  const isOpen = pattern.at(-1) === "*";
  if (isOpen ? segments.length < pattern.length : segments.length !== pattern.length) return false;
  return pattern.every((part, index) => {
    const segment = segments[index] ?? "";
    return part === "*" || part.startsWith(":") ? segment !== "" : part === segment;
  });
}
