/**
 * TOML spells keys in snake_case, the resources in camelCase. The mapping is mechanical; below these keys a person's
 * own names begin, which are never converted.
 */
const opaque: ReadonlySet<string> = new Set(["env", "labels", "annotations", "set", "podTemplate", "headers"]);
/** `default` is a map of free names on a Model, and a ref on a Slot's model. */
const opaqueMaps: ReadonlySet<string> = new Set(["default"]);

/** `idleSeconds` of `idle_seconds`. */
export function camelCase(key: string): string {
  return key.replaceAll(/_([a-z0-9])/g, (_match, letter: string) => letter.toUpperCase());
}

/** `idle_seconds` of `idleSeconds`. */
export function snakeCase(key: string): string {
  return key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** A TOML document with its keys in the resources' spelling. */
export function fromToml(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(fromToml);
  if (typeof value !== "object" || value === null || value instanceof Date) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const name = camelCase(key);
      const isFree = opaque.has(name) || (opaqueMaps.has(name) && typeof inner === "object");
      return [name, isFree ? inner : fromToml(inner)];
    }),
  );
}

/** A resource's data with its keys in TOML's spelling. */
export function toToml(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toToml);
  if (typeof value !== "object" || value === null || value instanceof Date) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      const isFree = opaque.has(name) || (opaqueMaps.has(name) && typeof inner === "object");
      return [snakeCase(name), isFree ? inner : toToml(inner)];
    }),
  );
}

/** A path in a TOML file in the resources' spelling. */
export function pathFromToml(path: readonly string[]): string[] {
  return spelled<string>(path, camelCase);
}

/** A path in TOML's spelling. */
export function pathToToml(path: readonly (string | number)[]): (string | number)[] {
  return spelled<string | number>(path, (part) => (typeof part === "string" ? snakeCase(part) : part));
}

/** Converts the parts of a path that are the resources' own keys. */
function spelled<T extends string | number>(path: readonly T[], convert: (part: T) => T): T[] {
  const first = path.findIndex((part) => {
    const name = camelCase(String(part));
    return opaque.has(name) || opaqueMaps.has(name);
  });
  return path.map((part, index) => (first === -1 || index <= first ? convert(part) : part));
}
