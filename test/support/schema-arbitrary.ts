import { isRecord } from "../../src/lib/record.ts";
import { fc } from "./fast-check.ts";

type Schema = Readonly<Record<string, unknown>>;

/** Values that a JSON Schema, as zod writes it, allows; `root` is what its references lead into. */
/** With groups of one level in it. */
const lookahead = /\(\?!(?:[^()]|\([^()]*\))*\)/g;

export function allowedBy(schema: Schema, root: Schema): fc.Arbitrary<unknown> {
  const { $ref: ref, enum: choices, const: only, anyOf, oneOf, type, pattern, format } = schema;
  if (typeof ref === "string") return allowedBy(resolved(ref, root), root);
  if (Array.isArray(choices)) return fc.constantFrom<unknown>(...choices);
  if ("const" in schema) return fc.constant(only);
  const branches = [anyOf, oneOf].find(Array.isArray)?.filter(isRecord);
  // A schema of any JSON leads back to itself.
  if (branches !== undefined && branches.length > 5) return fc.jsonValue({ maxDepth: 1 });
  if (branches !== undefined) return fc.oneof(...branches.map((branch) => allowedBy(branch, root)));
  if (type === "object") return objects(schema, root);
  if (type === "array") {
    const items = isRecord(schema["items"]) ? allowedBy(schema["items"], root) : fc.jsonValue({ maxDepth: 1 });
    return fc.array(items, { minLength: whole(schema["minItems"], 0), maxLength: 3 });
  }
  if (type === "string") {
    if (format === "uri") return fc.constantFrom("https://x.example/v1", "http://127.0.0.1:1/v1");
    if (typeof pattern === "string") {
      // fast-check makes no text for a lookahead: text that it forbids is left out afterwards.
      const [all, made] = [new RegExp(pattern), new RegExp(pattern.replaceAll(lookahead, ""))];
      return fc.stringMatching(made, { size: "-1" }).filter((text) => all.test(text));
    }
    return fc.string({ minLength: whole(schema["minLength"], 0), maxLength: 12 });
  }
  if (type === "integer" || type === "number") {
    const min = whole(schema["minimum"] ?? schema["exclusiveMinimum"], -5) + ("exclusiveMinimum" in schema ? 1 : 0);
    return fc.integer({ min, max: Math.min(whole(schema["maximum"], min + 1000), min + 1000) });
  }
  if (type === "boolean") return fc.boolean();
  if (type === "null") return fc.constant(null);
  return fc.jsonValue({ maxDepth: 1 });
}

function objects(schema: Schema, root: Schema): fc.Arbitrary<unknown> {
  const properties = Object.entries(isRecord(schema["properties"]) ? schema["properties"] : {});
  const required: unknown = schema["required"];
  const isRequired = (key: string): boolean => Array.isArray(required) && required.includes(key);
  const fields = properties.map(([key, field]): fc.Arbitrary<readonly [string, unknown] | undefined> => {
    const pair = (isRecord(field) ? allowedBy(field, root) : fc.jsonValue()).map((value) => [key, value] as const);
    return isRequired(key) ? pair : fc.option(pair, { nil: undefined, freq: 2 });
  });
  const more = schema["additionalProperties"];
  const names = isRecord(schema["propertyNames"]) ? allowedBy(schema["propertyNames"], root) : fc.string();
  const free =
    isRecord(more) && properties.length === 0
      ? [fc.dictionary(names.map(String), allowedBy(more, root), { maxKeys: 3 })]
      : [];
  return fc.tuple(fc.tuple(...fields), fc.tuple(...free)).map(([known, [others = {}]]) => ({
    ...others,
    ...Object.fromEntries(known.filter((each) => each !== undefined)),
  }));
}

function resolved(ref: string, root: Schema): Schema {
  let found: unknown = root;
  for (const part of ref.replace(/^#\/?/, "").split("/")) found = isRecord(found) ? found[part] : undefined;
  return isRecord(found) ? found : {};
}

function whole(value: unknown, otherwise: number): number {
  return typeof value === "number" ? Math.ceil(value) : otherwise;
}

const odd = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom("", "0", "true", -1, 1e99, "\u0000", "x".repeat(5000), "../../etc/passwd", "file:///etc/passwd"),
);

/** The same with something wrong: a field too many, too few, or of another kind; or another thing altogether. */
export function mutated(values: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc
    .tuple(values, fc.nat(), odd, fc.constantFrom("add", "drop", "change", "replace"))
    .map(([value, at, other, how]) => {
      if (!isRecord(value) || how === "replace") return other;
      const keys = Object.keys(value);
      const key = keys[at % Math.max(1, keys.length)] ?? "more";
      if (how === "add") return { ...value, more: other };
      if (how === "change") return { ...value, [key]: other };
      return Object.fromEntries(Object.entries(value).filter(([each]) => each !== key));
    });
}
