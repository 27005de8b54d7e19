import type { GbnfJsonSchema } from "node-llama-cpp";
import { Refusal } from "./refusal.ts";

type Node = Readonly<Record<string, unknown>>;

/** Keywords that restrict a value in ways that a grammar of this engine cannot enforce. */
const narrowing = new Set([
  "pattern",
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "multipleOf",
  "uniqueItems",
  "contains",
  "propertyNames",
  "patternProperties",
  "dependentRequired",
  "dependentSchemas",
  "minProperties",
  "maxProperties",
]);
const formats = new Set(["date-time", "time", "date"]);
/** Keywords that a grammar would ignore: an answer could violate them. */
const unsupported = ["not", "if", "then", "else"];
const depthLimit = 64;
const repetitionLimit = 1000;

/**
 * The treatment of what a grammar cannot enforce. `strict`: refused. `loose`: restricting keywords are dropped, and what
 * would be ignored is refused. `tool`: any value is accepted in its place, since a refusal would be one of all tools.
 */
export type Enforcement = "strict" | "loose" | "tool";

/**
 * A JSON Schema in the form of node-llama-cpp's grammars: every valid output of the result is valid by the schema.
 * Optional properties are always given, since its grammars have none; those that would never end are left out. Throws
 * Refusal (400) naming the place.
 */
export function grammarSchema(schema: unknown, enforcement: Enforcement): GbnfJsonSchema {
  const root = object(schema, "schema");
  const defs = { ...nodes(root["definitions"], "definitions"), ...nodes(root["$defs"], "$defs") };
  const reader = new Reader(enforcement, recursive(defs));
  const made = reader.read(root, "schema", 0, { type: "object", additionalProperties: true });
  if (Object.keys(defs).length > 0) {
    made["$defs"] = Object.fromEntries(
      Object.entries(defs).map(([name, def]) => [name, reader.read(def, `$defs.${name}`, 0)]),
    );
  }
  if (!isGrammarSchema(made)) throw new Refusal(400, "the schema allows nothing");
  return made;
}

/** The value consists of parts that the library's type allows, which the compiler cannot prove. */
function isGrammarSchema(made: object): made is GbnfJsonSchema {
  return Object.keys(made).length > 0;
}

class Reader {
  readonly #enforcement: Enforcement;
  readonly #recursive: ReadonlySet<string>;

  constructor(enforcement: Enforcement, recursiveDefs: ReadonlySet<string>) {
    this.#enforcement = enforcement;
    this.#recursive = recursiveDefs;
  }

  /** `otherwise`: the form of a tool's value that no grammar can hold. */
  read(value: unknown, path: string, depth: number, otherwise = anything()): Record<string, unknown> {
    try {
      return this.#read(value, path, depth);
    } catch (error) {
      if (this.#enforcement === "tool" && error instanceof Refusal) return otherwise;
      throw error;
    }
  }

  #read(value: unknown, path: string, depth: number): Record<string, unknown> {
    if (depth > depthLimit) throw new Refusal(400, `${path} is nested too deeply`);
    if (value === true) return anything();
    const node = object(value, path);
    for (const keyword of unsupported) if (keyword in node) throw unfit(path, keyword);
    if (this.#enforcement === "strict") {
      for (const keyword of Object.keys(node)) if (narrowing.has(keyword)) throw unfit(path, keyword);
      if (typeof node["format"] === "string" && !formats.has(node["format"])) throw unfit(path, "format");
    }
    const description = typeof node["description"] === "string" ? { description: node["description"] } : {};
    return { ...this.#shape(node, path, depth + 1), ...description };
  }

  #shape(node: Node, path: string, depth: number): Record<string, unknown> {
    if ("$ref" in node) return { $ref: `#/$defs/${defName(node["$ref"], path)}` };
    const isTyped = "type" in node || "properties" in node;
    const { allOf } = node;
    if (allOf !== undefined) {
      const [only, ...more] = array(allOf, `${path}.allOf`);
      if (isTyped || more.length > 0) throw unfit(path, "allOf");
      return this.read(only, `${path}.allOf[0]`, depth);
    }
    const either = node["anyOf"] ?? node["oneOf"];
    if (either !== undefined) {
      if (isTyped) throw unfit(path, "anyOf beside type");
      return {
        oneOf: array(either, `${path}.anyOf`).map((one, index) => this.read(one, `${path}.anyOf[${index}]`, depth)),
      };
    }
    if ("const" in node) return { const: literal(node["const"], path) };
    if ("enum" in node) return { enum: array(node["enum"], `${path}.enum`).map((one) => literal(one, path)) };
    const type = node["type"] ?? ("properties" in node ? "object" : "items" in node ? "array" : undefined);
    if (Array.isArray(type)) return { oneOf: type.map((one: unknown) => this.#typed(one, node, path, depth)) };
    return type === undefined ? anything() : this.#typed(type, node, path, depth);
  }

  #typed(type: unknown, node: Node, path: string, depth: number): Record<string, unknown> {
    switch (type) {
      case "string": {
        if (typeof node["format"] === "string" && formats.has(node["format"])) return { type, format: node["format"] };
        return { type, ...this.#bound(node, "minLength", path), ...this.#bound(node, "maxLength", path) };
      }
      case "number":
      case "integer":
      case "boolean":
      case "null":
        return { type };
      case "array": {
        const { items, prefixItems } = node;
        return {
          type,
          ...(items === undefined || items === true ? {} : { items: this.read(items, `${path}.items`, depth) }),
          ...(prefixItems === undefined
            ? {}
            : { prefixItems: array(prefixItems, path).map((one) => this.read(one, `${path}.prefixItems`, depth)) }),
          ...this.#bound(node, "minItems", path),
          ...this.#bound(node, "maxItems", path),
        };
      }
      case "object":
        return this.#object(node, path, depth);
      default:
        throw new Refusal(400, `${path}.type is none that JSON Schema has`);
    }
  }

  #object(node: Node, path: string, depth: number): Record<string, unknown> {
    const required: unknown = node["required"] ?? [];
    if (!Array.isArray(required)) throw new Refusal(400, `${path}.required must be a list of texts`);
    const given = nodes(node["properties"], `${path}.properties`);
    const properties: Record<string, unknown> = {};
    for (const [name, property] of Object.entries(given)) {
      if (!required.includes(name) && this.#neverEnds(property)) continue;
      properties[name] = this.read(property, `${path}.properties.${name}`, depth);
    }
    for (const name of required) {
      if (typeof name !== "string") throw new Refusal(400, `${path}.required must be a list of texts`);
      properties[name] ??= anything();
    }
    if (Object.keys(properties).length > 0) return { type: "object", properties };
    const { additionalProperties: more = true } = node;
    if (more === false) return { type: "object", properties: {} };
    return {
      type: "object",
      additionalProperties: more === true ? true : this.read(more, `${path}.additionalProperties`, depth),
    };
  }

  /** llama.cpp refuses a grammar that repeats more often. */
  #bound(node: Node, key: string, path: string): Record<string, number> {
    const value = node[key];
    if (value === undefined) return {};
    if (typeof value !== "number" || !Number.isInteger(value) || value < 0)
      throw new Refusal(400, `${path}.${key} must be a whole number`);
    if (value <= repetitionLimit) return { [key]: value };
    if (this.#enforcement === "strict") throw unfit(path, `${key} above ${repetitionLimit}`);
    return {};
  }

  #neverEnds(property: unknown): boolean {
    if (typeof property !== "object" || property === null || !("$ref" in property)) return false;
    const name = nameIn(property.$ref);
    return name !== undefined && this.#recursive.has(name);
  }
}

/** Recursive definitions. */
function recursive(defs: Readonly<Record<string, unknown>>): ReadonlySet<string> {
  const direct = new Map(Object.entries(defs).map(([name, def]) => [name, refsIn(def)]));
  const found = new Set<string>();
  for (const name of direct.keys()) {
    const seen = new Set<string>();
    const open = [...(direct.get(name) ?? [])];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      if (seen.has(next)) continue;
      seen.add(next);
      open.push(...(direct.get(next) ?? []));
    }
    if (seen.has(name)) found.add(name);
  }
  return found;
}

function refsIn(value: unknown): string[] {
  const text = JSON.stringify(value);
  return [...text.matchAll(/"\$ref":"#\/(?:\$defs|definitions)\/([^"]+)"/g)].map(([, name = ""]) => name);
}

const anything = (): Record<string, unknown> => ({
  oneOf: [
    { type: ["string", "number", "boolean", "null"] },
    { type: "array" },
    { type: "object", additionalProperties: true },
  ],
});

function nameIn(ref: unknown): string | undefined {
  return typeof ref === "string" ? /^#\/(?:\$defs|definitions)\/([^/]+)$/.exec(ref)?.[1] : undefined;
}

function defName(ref: unknown, path: string): string {
  const found = nameIn(ref);
  if (found === undefined) throw new Refusal(400, `${path}.$ref must name an entry of the schema's own $defs`);
  return found;
}

function literal(value: unknown, path: string): string | number | boolean | null {
  if (value === null || typeof value === "string" || typeof value === "number" || typeof value === "boolean")
    return value;
  throw new Refusal(400, `${path} names a value that is a list or an object; this engine takes plain ones`);
}

function unfit(path: string, keyword: string): Refusal {
  return new Refusal(400, `${path}: this engine cannot hold an answer to ${keyword}`);
}

function object(value: unknown, path: string): Node {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Refusal(400, `${path} must be a JSON Schema`);
  return { ...value };
}

function nodes(value: unknown, path: string): Node {
  return value === undefined ? {} : object(value, path);
}

function array(value: unknown, path: string): unknown[] {
  if (!Array.isArray(value) || value.length === 0) throw new Refusal(400, `${path} must be a list of at least one`);
  return value;
}
