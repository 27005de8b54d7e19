import { checkParts, Measure, tooWide, widening, type Expansion, type CheckBudget } from "./expansion.ts";
import { ExpressionReader, UnfitConstraint, type Expression } from "./expression.ts";

const sizeLimit = 131_072;
const ruleLimit = 5000;

const blank = /(?:\s|#[^\r\n]*)+/y;
const definition = /([A-Za-z0-9_-]+)(?:[ \t]|#[^\r\n]*[\r\n]|[\r\n])*::=/y;
const word = /[A-Za-z0-9_-]+/y;
const quoted = /"(?:[^"\\]|\\[^])*"/y;
const characters = /\[(?:[^\]\\]|\\[^])*\]/y;
const token = /!?<[^<>]*>/y;

/** llama.cpp's GBNF (its grammars/README.md). A grammar that llama.cpp itself refuses may pass here. */
class GrammarReader extends ExpressionReader {
  rules(): ReadonlyMap<string, Expression> {
    const rules = new Map<string, Expression>();
    this.skip();
    while (this.at < this.text.length) {
      const head = this.match(definition);
      const rule = head?.slice(0, -3).trim().split(/[\s#]/)[0];
      if (rule === undefined) throw this.unreadable();
      this.skip();
      rules.set(rule, this.either());
      if (rules.size > ruleLimit) throw new UnfitConstraint(`has more than ${ruleLimit} rules`);
    }
    return rules;
  }

  protected skip(): void {
    this.match(blank);
  }

  protected part(): Expression | undefined {
    const text = this.match(quoted);
    if (text !== undefined) return text === '""' ? { kind: "sequence", of: [] } : { kind: "character" };
    if (this.match(characters) !== undefined || this.match(token) !== undefined) return { kind: "character" };
    const next = this.text[this.at];
    if (next === ".") {
      this.at += 1;
      return { kind: "character" };
    }
    if (next === "(") {
      this.at += 1;
      return this.group();
    }
    if (next === undefined || next === "|" || next === ")") return undefined;
    definition.lastIndex = this.at;
    if (definition.test(this.text)) return undefined;
    const called = this.match(word);
    if (called === undefined) throw this.unreadable();
    return { kind: "rule", name: called };
  }
}

/**
 * Throws UnfitConstraint for a grammar that llama.cpp does not survive: it parses by recursion and follows all alternatives
 * at once.
 */
export function checkGrammar(text: string, budget: CheckBudget): void {
  if (text.length > sizeLimit) throw new UnfitConstraint(`is longer than ${sizeLimit} characters`);
  const rules = new GrammarReader(text).rules();
  const found = new Map<string, Expansion>();
  const none: Expansion = { empty: 0, first: 0 };
  const measure = new Measure((rule) => found.get(rule) ?? none, budget);
  let names: readonly string[] = [...rules.keys()];
  for (let hasChanged = true; hasChanged;) {
    hasChanged = false;
    // In alternating order: the rules that a rule calls stand mostly after it, or mostly before it.
    names = names.toReversed();
    for (const rule of names) {
      const before = found.get(rule) ?? none;
      const now = measure.of(rules.get(rule) ?? { kind: "character" });
      if (now.empty === before.empty && now.first === before.first) continue;
      found.set(rule, now);
      hasChanged = true;
    }
  }
  new Callers(rules, measure).check();
}

/** The alternatives after a rule in all rules that call it, directly or not: their empty matches multiply. */
class Callers {
  readonly #rules: ReadonlyMap<string, Expression>;
  readonly #measure: Measure;
  readonly #ways = new Map<string, number>();
  readonly #open: string[] = [];

  constructor(rules: ReadonlyMap<string, Expression>, measure: Measure) {
    this.#rules = rules;
    this.#measure = measure;
  }

  check(): void {
    for (const rule of this.#rules.keys()) this.#reach(rule, 1);
    for (let rule = this.#open.pop(); rule !== undefined; rule = this.#open.pop()) {
      const expression = this.#rules.get(rule);
      if (expression === undefined) continue;
      checkParts(expression, this.#ways.get(rule) ?? 1, this.#measure, (name, after) => this.#reach(name, after));
    }
  }

  #reach(rule: string, ways: number): void {
    if (tooWide(ways)) throw widening;
    if ((this.#ways.get(rule) ?? 0) >= ways) return;
    this.#ways.set(rule, ways);
    this.#open.push(rule);
  }
}
