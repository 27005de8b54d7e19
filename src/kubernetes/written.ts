/**
 * An object as it is written to the API server, by its type in @kubernetes/client-node: `satisfies Written<V1Pod>` finds a
 * misspelt or misplaced field when the types are checked. Times are texts in JSON, and nothing that is written changes.
 */
export type Written<Value> = Value extends Date
  ? string
  : Value extends readonly (infer Item)[]
    ? readonly Written<Item>[]
    : Value extends object
      ? { readonly [Key in keyof Value]: Written<Value[Key]> }
      : Value;
