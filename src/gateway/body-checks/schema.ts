import { isRecord } from "../../lib/record.ts";
import { checkWays, ExpressionReader, UnfitConstraint, type LengthBudget } from "./expression.ts";
import { checkGrammar, tokensOf } from "./grammar.ts";

/** Nested objects and lists; every level of a schema takes two. llama.cpp takes seconds for a thousand. */
const depthLimit = 128;
const partLimit = 20_000;
/** llama.cpp writes a rule for the successors of each property. The limit of the sum of all objects' squares. */
const successorLimit = 500_000;
/** The sum of all `minItems`, `maxLength` and so on: llama.cpp writes each repetition out, up to its own bound. */
const copyLimit = 100_000;
const ownCopyLimit = 2000;
const referenceLimit = 256;
const ranges = [
  ["minItems", "maxItems"],
  ["minLength", "maxLength"],
] as const;
/** Keys whose value is a schema, outside of schemas. */
const roots = new Set(["schema", "parameters", "input_schema", "json"]);

/** One field of a body, with all its schemas. */
export class FieldCheck {
  #parts = 0;
  #copies = 0;
  #successors = 0;
  /** The ways at the beginning of each schema; 1 of one that is being counted: llama.cpp refuses a rule that leads to itself. */
  readonly #ways = new Map<object, number>();
  /** The schema at the end of each reference: many references may share a chain. */
  readonly #ends = new Map<object, unknown>();
  readonly #budget: LengthBudget;

  constructor(budget: LengthBudget) {
    this.#budget = budget;
  }

  /** Throws UnfitConstraint. `root`: the schema that references refer to; undefined outside of schemas. */
  check(value: unknown, root: unknown, depth = 0): void {
    if (depth > depthLimit) throw new UnfitConstraint(`is nested deeper than ${depthLimit} levels`);
    if (typeof value !== "object" || value === null) return;
    this.#parts += 1;
    if (this.#parts > partLimit) throw new UnfitConstraint(`has more than ${partLimit} objects and lists`);
    if (root !== undefined && isRecord(value)) this.#checkCounts(value);
    for (const [key, one] of Object.entries(value))
      this.check(one, root ?? (roots.has(key) ? one : undefined), depth + 1);
    if (root !== undefined) this.#waysOf(value, root, 0);
  }

  #checkCounts(schema: Readonly<Record<string, unknown>>): void {
    const { properties, pattern, type } = schema;
    // llama.cpp copies the schema for each type of a list, with all that is in it.
    if (Array.isArray(type))
      for (const name of ["object", "array"])
        if (type.indexOf(name) < type.lastIndexOf(name)) throw new UnfitConstraint(`has a type with ${name} twice`);
    if (isRecord(properties)) this.#successors += Object.keys(properties).length ** 2;
    if (this.#successors > successorLimit) throw new UnfitConstraint("has too many objects of many properties");
    if (typeof pattern === "string") checkPattern(pattern, this.#budget);
    for (const [least, most] of ranges) {
      const [from, to] = [schema[least], schema[most]];
      for (const count of [from, to])
        // A count below zero must not lower the sum.
        if (typeof count === "number") this.#copies += Math.max(0, Math.min(count, ownCopyLimit));
      // llama.cpp counts from one to the other without an end, and takes all memory of the machine.
      if (typeof from === "number" && typeof to === "number" && from > to)
        throw new UnfitConstraint(`has ${least} ${from} above ${most} ${to}`);
    }
    if (this.#copies > copyLimit) throw new UnfitConstraint("repeats too much too often");
  }

  /** The alternatives at a schema's beginning: of alternatives too, and by reference. */
  #waysOf(schema: unknown, root: unknown, depth: number): number {
    if (!isRecord(schema)) return 1;
    checkReferences(depth);
    const known = this.#ways.get(schema);
    if (known !== undefined) return known;
    this.#ways.set(schema, 1);
    let ways = 0;
    for (const one of this.#alternatives(schema, root)) ways += this.#waysOf(one, root, depth + 1);
    ways = Math.max(1, ways) * (Array.isArray(schema["type"]) ? Math.max(1, schema["type"].length) : 1);
    checkWays(ways);
    this.#ways.set(schema, ways);
    return ways;
  }

  #alternatives(schema: Readonly<Record<string, unknown>>, root: unknown): readonly unknown[] {
    const { $ref: ref, anyOf, oneOf, allOf, enum: values } = schema;
    if (typeof ref === "string") return [this.#endOf(schema, root)];
    // Versions of llama.cpp differ in which of them they take.
    return [anyOf, oneOf, allOf, values].filter(Array.isArray).flat();
  }

  /** The schema to which a reference leads, also by further ones: llama.cpp follows a circle of them without an end. */
  #endOf(schema: unknown, root: unknown, hops = 0): unknown {
    if (!isRecord(schema) || typeof schema["$ref"] !== "string") return schema;
    checkReferences(hops);
    if (this.#ends.has(schema)) return this.#ends.get(schema);
    const end = this.#endOf(referred(schema["$ref"], root), root, hops + 1);
    this.#ends.set(schema, end);
    return end;
  }
}

function referred(ref: string, root: unknown): unknown {
  const [start, ...names] = ref.split("/");
  let at: unknown = start === "#" ? root : undefined;
  for (const name of names) at = isRecord(at) ? at[name] : Array.isArray(at) ? at[Number(name)] : undefined;
  return at;
}

function checkReferences(count: number): void {
  if (count > referenceLimit)
    throw new UnfitConstraint(`has references that lead on more than ${referenceLimit} times`);
}

/** A token of a regular expression; a class or a count that does not end is a token to the end of the text. */
const patternToken = /\\[^]|\[(?:[^\]\\]|\\[^])*\]?|\((?:\?:)?|\{[\s+]*[\d,][^}]*\}?|[^[]/y;

/** Throws UnfitConstraint for a regular expression of a schema whose grammar an engine would not survive. */
function checkPattern(text: string, budget: LengthBudget): void {
  budget.take(text);
  const tokens = tokensOf(text, patternToken);
  if (new ExpressionReader(tokens).check(0) < tokens.length) throw new UnfitConstraint("has a group that ends twice");
}

/** A sampler's window in tokens; llama.cpp allocates 8 bytes or more for each, for every request. */
const windowLimit = 1_048_576;

/** Throws UnfitConstraint for the value of a field that constrains answers. */
export function checkField(name: string, value: unknown, budget: LengthBudget): void {
  if (name === "chat_parser") throw new UnfitConstraint("is not for clients");
  else if (name.endsWith("_last_n")) checkWindow(value);
  else if (name === "grammar" && typeof value === "string") checkGrammar(value, budget);
  else if (name === "grammar_triggers") checkTriggers(value, budget);
  else if (name === "guided_regex" && typeof value === "string") checkPattern(value, budget);
  else new FieldCheck(budget).check(value, name === "json_schema" || name === "guided_json" ? value : undefined);
}

function checkWindow(value: unknown): void {
  if (typeof value === "number" && value > windowLimit) throw new UnfitConstraint(`is more than ${windowLimit}`);
}

/** Some are regular expressions, whose groups llama-server parses by recursion too. */
function checkTriggers(value: unknown, budget: LengthBudget): void {
  for (const trigger of Array.isArray(value) ? value : []) {
    const text: unknown = isRecord(trigger) ? trigger["value"] : undefined;
    if (typeof text === "string") checkPattern(text, budget);
  }
}
