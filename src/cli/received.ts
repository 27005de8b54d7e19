/**
 * An answer as any version of the service may send it: a field may be missing or null, and a text of a fixed set may be one that
 * this version of the command line does not know.
 */
export type Received<T> = T extends string
  ? string
  : T extends readonly (infer Item)[]
    ? readonly Received<Item>[]
    : T extends object
      ? { readonly [K in keyof T]?: Received<T[K]> | null | undefined }
      : T;
