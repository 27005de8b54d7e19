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

/** Fields of a view that the type of its source does not have, not even as optional ones. */
type Missing<View, T> = Exclude<CamelKey<keyof View>, keyof T>;

/**
 * Returns a function that makes the view of a schema from an object whose fields have the same names in camelCase. A field
 * without a value is null, and its name stands in the object's type; a field that the schema lacks is left out. Fields are
 * found in objects, arrays, and what may be null or absent. A value of any other schema, such as a union or a record, stays
 * as it is, as do keys of a schema that is in camelCase itself, such as that of conditions.
 */
export function viewFrom<S extends z.ZodObject>(
  schema: S,
): <T extends Source<z.output<S>>>(source: T & Record<Missing<z.output<S>, T>, unknown>) => z.output<S>;
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
