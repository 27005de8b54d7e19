import { ExpressionReader, UnfitConstraint, type LengthBudget } from "./expression.ts";
import { tokensOf } from "./grammar.ts";

/** A class or a count that does not end is a token to the end of the text. */
const token = /\\[^]|\[(?:[^\]\\]|\\[^])*\]?|\((?:\?:)?|\{[\s+]*[\d,][^}]*\}?|[^[]/y;

/** Throws UnfitConstraint for a regular expression of a schema whose grammar an engine would not survive. */
export function checkPattern(text: string, budget: LengthBudget): void {
  budget.take(text);
  const tokens = tokensOf(text, token);
  if (new ExpressionReader(tokens).check(0) < tokens.length) throw new UnfitConstraint("has a group that ends twice");
}
