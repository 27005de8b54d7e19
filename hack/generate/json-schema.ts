import { z } from "zod";

/** The part of JSON Schema that zod writes for the resources, after `readSchema` has cleaned it. */
export interface JsonSchema {
  readonly type?: string | undefined;
  readonly description?: string | undefined;
  readonly default?: unknown;
  readonly enum?: readonly string[] | undefined;
  readonly pattern?: string | undefined;
  readonly format?: string | undefined;
  readonly minLength?: number | undefined;
  readonly maxLength?: number | undefined;
  readonly minimum?: number | undefined;
  readonly maximum?: number | undefined;
  readonly exclusiveMinimum?: number | undefined;
  readonly minItems?: number | undefined;
  readonly maxItems?: number | undefined;
  readonly items?: JsonSchema | undefined;
  readonly properties?: Readonly<Record<string, JsonSchema>> | undefined;
  readonly required?: readonly string[] | undefined;
  readonly propertyNames?: JsonSchema | undefined;
  readonly additionalProperties?: boolean | JsonSchema | undefined;
  readonly anyOf?: readonly JsonSchema[] | undefined;
}

const node: z.ZodType<JsonSchema> = z
  .looseObject({
    type: z.string().optional(),
    description: z.string().optional(),
    default: z.unknown().optional(),
    enum: z.array(z.string()).optional(),
    const: z.string().optional(),
    pattern: z.string().optional(),
    format: z.string().optional(),
    minLength: z.number().optional(),
    maxLength: z.number().optional(),
    minimum: z.number().optional(),
    maximum: z.number().optional(),
    exclusiveMinimum: z.number().optional(),
    minItems: z.number().optional(),
    maxItems: z.number().optional(),
    get items() {
      return node.optional();
    },
    get properties() {
      return z.record(z.string(), node).optional();
    },
    required: z.array(z.string()).optional(),
    get propertyNames() {
      return node.optional();
    },
    get additionalProperties() {
      return z.union([z.boolean(), node]).optional();
    },
    get anyOf() {
      return z.array(node).optional();
    },
    get oneOf() {
      return z.array(node).optional();
    },
    $ref: z.string().optional(),
  })
  .transform(clean);

/** A zod schema as users write it (`input`) or as Berth publishes it (`output`). */
export function readSchema(schema: z.ZodType, io: "input" | "output"): JsonSchema {
  return node.parse(z.toJSONSchema(schema, { io, target: "draft-7" }));
}

/** True for a map of free names: the names below it are not Berth's, so none is renamed. */
export function isMap(schema: JsonSchema): boolean {
  return typeof schema.additionalProperties === "object";
}

/** True where any JSON is allowed. */
export function isFree(schema: JsonSchema): boolean {
  return schema.type === undefined && schema.anyOf === undefined && schema.enum === undefined;
}

interface RawSchema extends JsonSchema {
  readonly const?: string | undefined;
  readonly oneOf?: readonly JsonSchema[] | undefined;
  readonly $ref?: string | undefined;
}

/**
 * Keeps the parts with meaning for a reader. A `$ref` is zod's recursive `json()` and becomes the free schema; the
 * bounds of safe integers and the pattern of `date-time` are dropped.
 */
function clean(raw: RawSchema): JsonSchema {
  const kept: Record<string, unknown> = {};
  const keep = <K extends keyof JsonSchema>(key: K, value: JsonSchema[K]): void => {
    if (value !== undefined) kept[key] = value;
  };
  const format = raw.format === "date-time" || raw.format === "uri" ? raw.format : undefined;
  keep("description", raw.description);
  if (raw.$ref !== undefined) return kept;
  keep("type", raw.type);
  keep("default", raw.default);
  keep("enum", raw.const === undefined ? raw.enum : [raw.const]);
  keep("format", format);
  keep("pattern", format === "date-time" ? undefined : plainPattern(raw.pattern));
  keep("minLength", raw.minLength);
  keep("maxLength", raw.maxLength);
  keep("minimum", raw.minimum === Number.MIN_SAFE_INTEGER ? undefined : raw.minimum);
  keep("maximum", raw.maximum === Number.MAX_SAFE_INTEGER ? undefined : raw.maximum);
  keep("exclusiveMinimum", raw.exclusiveMinimum);
  keep("minItems", raw.minItems);
  keep("maxItems", raw.maxItems);
  keep("items", raw.items);
  keep("properties", raw.properties);
  keep("required", raw.required);
  keep("propertyNames", raw.propertyNames?.pattern === undefined ? undefined : raw.propertyNames);
  keep("additionalProperties", raw.additionalProperties);
  keep("anyOf", raw.anyOf ?? raw.oneOf);
  return kept;
}

/** `^\/dev\/.*` matches no more than `^/dev/`, and every regular-expression dialect reads the latter. */
function plainPattern(pattern: string | undefined): string | undefined {
  return pattern?.replaceAll("\\/", "/").replace(/\.\*$/, "");
}
