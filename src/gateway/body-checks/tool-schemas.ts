import { isRecord } from "../../lib/record.ts";

/** llama.cpp's grammars repeat less than 2000 times; a list's item counts up to three times. */
const characterLimit = 1999;
const itemLimit = 600;
const counts = [
  { min: "minLength", max: "maxLength", limit: characterLimit },
  { min: "minItems", max: "maxItems", limit: itemLimit },
] as const;
const types: readonly unknown[] = ["string", "number", "integer", "boolean", "null", "object", "array"];
/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
const single = new Set(["items", "additionalProperties"]);
const listed = new Set(["prefixItems", "anyOf", "oneOf", "allOf"]);
const byName = new Set(["properties", "$defs", "definitions"]);
/**
 * A pattern that every version takes: whole, without groups that look around, and without escapes but those of special
 * characters. Earlier versions refuse others, or make a grammar of them that they cannot read.
 */
const plainPattern = /^\^(?![*+?{])(?:[^\\[(]|\((?![*+?{])|\(\?:|\\[\^$.[\]()|{}*+?\\]|\[(?:[^\\\]]|\\[\\\]])+\])+\$$/;
const frequent = /\{[\d,]*\d{4}/;

/** Tools that llama.cpp takes, and the keywords that their schemas have lost, as `tools.maxLength`. */
export interface FitTools {
  readonly tools: unknown;
  readonly leftOut: readonly string[];
}

/**
 * The tools of a request with schemas that the grammars of every llama.cpp can hold: one unfit keyword would be a refusal
 * of all tools, and clients have many tools whose schemas nobody wrote for it. Undefined where all are fit.
 */
export function fitTools(tools: unknown): FitTools | undefined {
  if (!Array.isArray(tools)) return undefined;
  const lost = new Set<string>();
  const made = tools.map((tool: unknown) => {
    if (!isRecord(tool)) return tool;
    const holder = isRecord(tool["function"]) ? tool["function"] : tool;
    const field = "input_schema" in holder ? "input_schema" : "parameters";
    if (!isRecord(holder[field])) return tool;
    const reader = new SchemaReader(holder[field]);
    const schema = reader.read(holder[field]);
    if (schema === holder[field]) return tool;
    for (const keyword of reader.lost) lost.add(`tools.${keyword}`);
    const fit = { ...holder, [field]: schema };
    return holder === tool ? fit : { ...tool, function: fit };
  });
  return isSame(made, tools) ? undefined : { tools: made, leftOut: [...lost] };
}

/** Reads the schema of one tool, to which its references refer. */
class SchemaReader {
  readonly #root: unknown;
  readonly lost = new Set<string>();

  constructor(root: unknown) {
    this.#root = root;
  }

  /** The schema itself where nothing of it changes. */
  read(schema: unknown): unknown {
    // `true`: any value. A number that is kept as it is written is an object.
    if (!isRecord(schema) || JSON.isRawJSON(schema)) return {};
    const unfit = new Set(unfitCounts(schema));
    return this.#rebuilt(schema, (keyword, value) => {
      const fit = unfit.has(keyword) ? undefined : this.#fit(keyword, value);
      if (fit === undefined) this.lost.add(keyword);
      return fit;
    });
  }

  /** The object with other values, and without those that are undefined then. */
  #rebuilt(given: Readonly<Record<string, unknown>>, change: (name: string, value: unknown) => unknown): unknown {
    const before = Object.entries(given);
    const after = before.map(([name, value]): [string, unknown] => [name, change(name, value)]);
    if (after.every(([, value], at) => value === before[at]?.[1])) return given;
    return Object.fromEntries(after.filter(([, value]) => value !== undefined));
  }

  #list(schemas: readonly unknown[]): unknown {
    const made = schemas.map((one) => this.read(one));
    return isSame(made, schemas) ? schemas : made;
  }

  /** The value of a keyword as llama.cpp takes it; undefined: it takes none of it. */
  #fit(keyword: string, value: unknown): unknown {
    if (single.has(keyword)) {
      if (Array.isArray(value)) return this.#list(value);
      return keyword === "additionalProperties" && typeof value === "boolean" ? value : this.read(value);
    }
    if (listed.has(keyword)) return Array.isArray(value) && value.length > 0 ? this.#list(value) : undefined;
    if (byName.has(keyword)) return isRecord(value) ? this.#rebuilt(value, (_name, one) => this.read(one)) : undefined;
    switch (keyword) {
      case "$ref":
        return typeof value === "string" && this.#resolves(value) ? value : undefined;
      case "type": {
        if (!Array.isArray(value)) return types.includes(value) ? value : undefined;
        return value.length > 0 && value.every((one) => types.includes(one)) ? value : undefined;
      }
      case "enum":
        return Array.isArray(value) && value.length > 0 ? value : undefined;
      case "pattern":
        return typeof value === "string" && plainPattern.test(value) && !frequent.test(value) ? value : undefined;
      case "format":
        return typeof value === "string" ? value : undefined;
      default:
        return value;
    }
  }

  /** llama.cpp takes the names between slashes as they are written. */
  #resolves(ref: string): boolean {
    if (!ref.startsWith("#/")) return false;
    let at: unknown = this.#root;
    for (const name of ref.slice(2).split("/")) at = isRecord(at) && Object.hasOwn(at, name) ? at[name] : undefined;
    return isRecord(at);
  }
}

/** The counts of a schema that are too large, or no counts. */
function unfitCounts(schema: Readonly<Record<string, unknown>>): string[] {
  return counts.flatMap(({ min, max, limit }) =>
    [min, max].filter((keyword) => {
      const value = schema[keyword];
      return value !== undefined && !(Number.isInteger(value) && Number(value) >= 0 && Number(value) <= limit);
    }),
  );
}

function isSame(made: readonly unknown[], given: readonly unknown[]): boolean {
  return made.every((value, at) => value === given[at]);
}
