import { z } from "zod";
import { isRecord } from "../../lib/record.ts";

type CamelKey<K> = K extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelKey<Tail> & string>}` : K;
type IsAbsent<T> = null extends T ? true : undefined extends T ? true : false;

/** The object that a view is made from: its fields in camelCase, of which those that may be null may be absent. */
type Source<View> = View extends readonly (infer Item)[]
  ? readonly Source<Item>[]
  : View extends object
    ? { readonly [K in keyof View as IsAbsent<View[K]> extends true ? never : CamelKey<K>]: Source<View[K]> } & {
        readonly [K in keyof View as IsAbsent<View[K]> extends true ? CamelKey<K> : never]?:
          Source<View[K]> | undefined;
      }
    : View;

/**
 * Returns a function that makes the view of a schema from an object whose fields have the same names in camelCase. A field
 * that the object lacks is null, a field that the schema lacks is left out. Keys of records, and of objects whose schema
 * is in camelCase itself, such as conditions, stay as they are.
 */
export function viewFrom<S extends z.ZodObject>(schema: S): (source: Source<z.output<S>>) => z.output<S>;
export function viewFrom(schema: z.ZodObject): (source: unknown) => unknown {
  return converter(schema);
}

function converter(schema: z.core.$ZodType): (value: unknown) => unknown {
  if (schema instanceof z.ZodNullable) {
    const inner = converter(schema.unwrap());
    return (value) => (value === undefined || value === null ? null : inner(value));
  }
  if (schema instanceof z.ZodOptional) {
    const inner = converter(schema.unwrap());
    return (value) => (value === undefined ? undefined : inner(value));
  }
  if (schema instanceof z.ZodArray) {
    const item = converter(schema.element);
    return (value) => (Array.isArray(value) ? value.map((each) => item(each)) : value);
  }
  if (schema instanceof z.ZodObject) {
    const fields = Object.entries(schema.shape).map(([key, field]) => [key, camelCase(key), converter(field)] as const);
    return (value) => {
      if (!isRecord(value)) return value;
      const view: Record<string, unknown> = {};
      for (const [key, name, convert] of fields) view[key] = convert(value[name]);
      return view;
    };
  }
  return (value) => value;
}

function camelCase(key: string): string {
  return key.replaceAll(/_(\w)/g, (_all, letter: string) => letter.toUpperCase());
}
