import { UnfitConstraint, type Expression } from "./expression.ts";

/**
 * How many alternatives llama.cpp follows at one place: it holds each in memory, and tries every token of its
 * vocabulary on each. `empty`: alternatives that match nothing, each of which continues with the next part; `first`:
 * alternatives that match a first character.
 */
export interface Expansion {
  readonly empty: number;
  readonly first: number;
}

const nothing: Expansion = { empty: 1, first: 0 };
const wayLimit = 2000;
const cap = (count: number): number => Math.min(count, wayLimit + 1);

export function tooWide(ways: number): boolean {
  return ways > wayLimit;
}

export const widening = new UnfitConstraint(`leaves more than ${wayLimit} ways open at one place`);

type RuleExpansions = (name: string) => Expansion;

/** The number of checked parts of expressions per body: at most some tens of milliseconds. */
export class CheckBudget {
  #left = 100_000;

  take(): void {
    this.#left -= 1;
    if (this.#left < 0) throw new UnfitConstraint("is too entangled");
  }
}

/** Throws UnfitConstraint once the number is used up. */
export class Measure {
  readonly #ofRule: RuleExpansions;
  readonly #budget: CheckBudget;

  constructor(ofRule: RuleExpansions, budget: CheckBudget) {
    this.#ofRule = ofRule;
    this.#budget = budget;
  }

  of(expression: Expression): Expansion {
    this.#budget.take();
    switch (expression.kind) {
      case "character":
        return { empty: 0, first: 1 };
      case "rule":
        return this.#ofRule(expression.name);
      case "sequence":
        return expression.of.reduceRight((rest, part) => followed(this.of(part), rest), nothing);
      case "either": {
        const all = expression.of.map((one) => this.of(one));
        return { empty: total(all.map(({ empty }) => empty)), first: total(all.map(({ first }) => first)) };
      }
      case "repeat":
        return repeated(this.of(expression.of), expression.min, expression.max);
      default:
        return expression satisfies never;
    }
  }
}

/**
 * Throws UnfitConstraint for an expression with too many open alternatives at any place. `after`: alternatives after it that
 * match nothing.
 */
export function checkParts(
  expression: Expression,
  after: number,
  measure: Measure,
  onRule: (name: string, after: number) => void,
): void {
  const own = measure.of(expression);
  if (tooWide(own.first * after) || tooWide(own.empty * after)) throw widening;
  switch (expression.kind) {
    case "character":
      return;
    case "rule":
      onRule(expression.name, after);
      return;
    case "either":
      for (const one of expression.of) checkParts(one, after, measure, onRule);
      return;
    case "sequence": {
      let rest = nothing;
      for (const part of expression.of.toReversed()) {
        checkParts(part, Math.max(1, rest.empty * after), measure, onRule);
        rest = followed(measure.of(part), rest);
        if (tooWide(rest.first * after)) throw widening;
      }
      return;
    }
    case "repeat":
      checkParts(expression.of, Math.max(1, own.empty * after), measure, onRule);
      return;
    default:
      expression satisfies never;
  }
}

/** `part`, then `next`. */
function followed(part: Expansion, next: Expansion): Expansion {
  return { empty: cap(part.empty * next.empty), first: cap(part.first + part.empty * next.first) };
}

function repeated(part: Expansion, min: number, max: number): Expansion {
  // A recursion that matches nothing.
  if (max === Infinity && part.empty > 0) return { empty: wayLimit + 1, first: wayLimit + 1 };
  let found: Expansion = { empty: 1, first: part.first };
  if (max !== Infinity) {
    found = { empty: 1, first: 0 };
    for (let left = Math.min(max - min, wayLimit); left > 0; left--) {
      const next = followed(part, found);
      const more = { empty: cap(next.empty + 1), first: next.first };
      if (more.empty === found.empty && more.first === found.first) break;
      found = more;
    }
  }
  for (let left = Math.min(min, wayLimit); left > 0; left--) {
    const more = followed(part, found);
    if (more.empty === found.empty && more.first === found.first) break;
    found = more;
  }
  return found;
}

const total = (counts: readonly number[]): number => cap(counts.reduce((sum, count) => sum + count, 0));
