import { isRecord } from "../../lib/record.ts";
import { tooWide, widening, type CheckBudget } from "./expansion.ts";
import { UnfitConstraint } from "./expression.ts";
import { checkGrammar } from "./grammar.ts";
import { checkPattern } from "./pattern.ts";

/** Nested objects and lists; every level of a schema takes two. llama.cpp takes seconds for a thousand. */
const depthLimit = 128;
const partLimit = 20_000;
/** llama.cpp writes a rule for the successors of each property: their number squared. */
const propertyLimit = 500;
/** The limit of all objects together. */
const followerLimit = 500_000;
/** The sum of all `minItems`, `maxLength` and so on: llama.cpp writes each repetition out, up to its own bound. */
const copyLimit = 100_000;
const ownCopyLimit = 2000;
const referenceLimit = 256;
const counted = ["minItems", "maxItems", "minLength", "maxLength"] as const;
const ranges = [
  ["minItems", "maxItems"],
  ["minLength", "maxLength"],
] as const;
/** Keys whose value is a whole schema, with its own definitions. */
const roots = new Set(["schema", "json_schema", "parameters", "input_schema", "guided_json"]);

/** One field of a body, with all its schemas. */
export class FieldCheck {
  #parts = 0;
  #copies = 0;
  #followers = 0;
  readonly #ways = new Map<unknown, Ways>();
  readonly #budget: CheckBudget;

  constructor(budget: CheckBudget) {
    this.#budget = budget;
  }

  /** Throws UnfitConstraint. `root`: the schema that references refer to. */
  check(value: unknown, root: unknown, depth = 0): void {
    if (depth > depthLimit) throw new UnfitConstraint(`is nested deeper than ${depthLimit} levels`);
    if (typeof value !== "object" || value === null) return;
    this.#parts += 1;
    if (this.#parts > partLimit) throw new UnfitConstraint(`has more than ${partLimit} objects and lists`);
    if (Array.isArray(value)) {
      for (const one of value) this.check(one, root, depth + 1);
      return;
    }
    if (!isRecord(value)) return;
    const { properties, pattern } = value;
    if (isRecord(properties)) {
      const count = Object.keys(properties).length;
      if (count > propertyLimit) throw new UnfitConstraint(`has an object of more than ${propertyLimit} properties`);
      this.#followers += count * count;
      if (this.#followers > followerLimit) throw new UnfitConstraint("has too many objects of many properties");
    }
    if (typeof pattern === "string") checkPattern(pattern, this.#budget);
    for (const name of counted) {
      const count = value[name];
      // A count below zero must not lower the sum.
      if (typeof count === "number") this.#copies += Math.max(0, Math.min(count, ownCopyLimit));
    }
    for (const [min, max] of ranges) {
      const [from, to] = [value[min], value[max]];
      // llama.cpp counts from one to the other without an end, and takes all memory of the machine.
      if (typeof from === "number" && typeof to === "number" && from > to)
        throw new UnfitConstraint(`has ${min} ${from} above ${max} ${to}`);
    }
    if (this.#copies > copyLimit) throw new UnfitConstraint("repeats too much too often");
    for (const [key, one] of Object.entries(value)) {
      const isRoot = roots.has(key) && isRecord(one);
      this.check(one, isRoot ? one : root, depth + 1);
    }
    let ways = this.#ways.get(root);
    if (ways === undefined) this.#ways.set(root, (ways = new Ways(root)));
    ways.of(value);
  }
}

/** The number of open alternatives at a schema's beginning: alternatives of alternatives, by reference too. */
class Ways {
  readonly #root: unknown;
  readonly #known = new Map<object, number>();

  constructor(root: unknown) {
    this.#root = root;
  }

  /** Throws UnfitConstraint. */
  of(schema: unknown, depth = 0): number {
    if (!isRecord(schema)) return 1;
    if (depth > referenceLimit)
      throw new UnfitConstraint(`has references that lead on more than ${referenceLimit} times`);
    const known = this.#known.get(schema);
    if (known !== undefined) return known;
    // A recursive reference: llama.cpp refuses it as a recursion that matches nothing.
    this.#known.set(schema, 0);
    const ways = this.#count(schema, depth + 1);
    if (tooWide(ways)) throw widening;
    this.#known.set(schema, ways);
    return ways;
  }

  #count(schema: Readonly<Record<string, unknown>>, depth: number): number {
    const { $ref: ref, allOf, type } = schema;
    if (typeof ref === "string") return this.of(this.#referred(ref), depth);
    const either = schema["anyOf"] ?? schema["oneOf"];
    if (Array.isArray(either)) return either.reduce<number>((sum, one) => sum + this.of(one, depth), 0);
    if (Array.isArray(allOf))
      return allOf.reduce<number>((product, one) => product * Math.max(1, this.of(one, depth)), 1);
    const values = schema["enum"];
    if (Array.isArray(values)) return values.length;
    return Array.isArray(type) ? type.length : 1;
  }

  #referred(ref: string): unknown {
    const [, path] = /^#\/?(.*)$/.exec(ref) ?? [];
    if (path === undefined) return undefined;
    let at: unknown = this.#root;
    for (const step of path === "" ? [] : path.split("/")) {
      const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
      at = isRecord(at) ? at[name] : Array.isArray(at) ? at[Number(name)] : undefined;
    }
    return at;
  }
}

/** A sampler's window in tokens; llama.cpp allocates 8 bytes or more for each, for every request. */
const windowLimit = 1_048_576;

/** Throws UnfitConstraint for the value of a field that constrains answers. */
export function checkField(name: string, value: unknown, budget: CheckBudget): void {
  if (name === "chat_parser") throw new UnfitConstraint("is not for clients");
  else if (name.endsWith("_last_n")) checkWindow(value);
  else if (name === "grammar" && typeof value === "string") checkGrammar(value, budget);
  else if (name === "grammar_triggers") checkTriggers(value, budget);
  else if (name === "guided_regex" && typeof value === "string") checkPattern(value, budget);
  else new FieldCheck(budget).check(value, value);
}

function checkWindow(value: unknown): void {
  if (typeof value === "number" && value > windowLimit) throw new UnfitConstraint(`is more than ${windowLimit}`);
}

/** Some are regular expressions, whose groups llama-server parses by recursion too. */
function checkTriggers(value: unknown, budget: CheckBudget): void {
  for (const trigger of Array.isArray(value) ? value : []) {
    const text: unknown = isRecord(trigger) ? trigger["value"] : undefined;
    if (typeof text === "string") checkPattern(text, budget);
  }
}
