import { checkParts, Measure, type CheckBudget } from "./expansion.ts";
import { ExpressionReader, UnfitConstraint, type Expression } from "./expression.ts";

const sizeLimit = 4096;

const characters = /\[(?:[^\]\\]|\\[^])*\]/y;
const opening = /\((?:\?:)?/y;

/** A regular expression of a JSON Schema, which llama.cpp turns into a grammar. */
class PatternReader extends ExpressionReader {
  whole(): Expression {
    const found = this.either();
    if (this.at < this.text.length) throw this.unreadable();
    return found;
  }

  protected skip(): void {
    // Blanks are characters here.
  }

  protected part(): Expression | undefined {
    if (this.match(characters) !== undefined) return { kind: "character" };
    if (this.match(opening) !== undefined) return this.group();
    const next = this.text[this.at];
    if (next === undefined || next === "|" || next === ")") return undefined;
    this.at += next === "\\" ? 2 : 1;
    return next === "^" || next === "$" ? { kind: "sequence", of: [] } : { kind: "character" };
  }
}

/** Throws UnfitConstraint for a pattern whose grammar llama.cpp does not survive. */
export function checkPattern(text: string, budget: CheckBudget): void {
  if (text.length > sizeLimit) throw new UnfitConstraint(`is longer than ${sizeLimit} characters`);
  const measure = new Measure(() => ({ empty: 0, first: 1 }), budget);
  checkParts(new PatternReader(text).whole(), 1, measure, () => undefined);
}
