import type { z } from "zod";
import { didYouMean, nearest } from "./nearest.ts";

/** The message about a key that no schema knows, with the nearest known key. */
export function unknownKey(key: string, known: readonly string[]): string {
  if (key === "<<") return "YAML 1.2 has no merge keys; name the fields, or give an alias of the whole map";
  return `unknown key${didYouMean(nearest(key, known))}`;
}

/** The keys that the schema knows at `path`, for a hint; empty when they cannot be derived. */
export function knownKeys(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let current: unknown = schema;
  const steps: readonly PropertyKey[] = [...path];
  for (const part of [...steps, undefined]) {
    current = unwrapped(current);
    if (part === undefined) break;
    if (!isSchemaNode(current)) return [];
    const { shape, element } = current.def;
    current = shape?.[String(part)] ?? element;
  }
  return isSchemaNode(current) ? Object.keys(current.def.shape ?? {}) : [];
}

interface SchemaNode {
  readonly def: {
    readonly shape?: Record<string, unknown>;
    readonly element?: unknown;
    readonly innerType?: unknown;
  };
}

function isSchemaNode(value: unknown): value is SchemaNode {
  return typeof value === "object" && value !== null && "def" in value;
}

/** The schema inside optional, default and prefault. */
function unwrapped(value: unknown): unknown {
  let current = value;
  while (isSchemaNode(current) && current.def.innerType !== undefined) current = current.def.innerType;
  return current;
}
