import { ExpressionReader, UnfitConstraint, type LengthBudget } from "./expression.ts";

const ruleLimit = 5000;
/** Blanks and comments first, which are no tokens of a rule. */
const token =
  /(?:\s|#[^\r\n]*)+|::=|[\w-]+|"(?:[^"\\]|\\[^])*"|\[(?:[^\]\\]|\\[^])*\]|!?<[^<>]*>|[.|()*+?]|\{(?:\s*\d{1,9})?\s*(?:,(?:\s*\d{1,9})?\s*)?\}/y;

/**
 * Throws UnfitConstraint for a grammar in llama.cpp's language GBNF that an engine would not survive. A grammar that llama.cpp
 * refuses may pass.
 */
export function checkGrammar(text: string, budget: LengthBudget): void {
  budget.take(text);
  const tokens = tokensOf(text, token).filter((one) => !/^[\s#]/.test(one));
  const starts = tokens.flatMap((one, at) => (one === "::=" ? [at + 1] : []));
  if (starts.length > ruleLimit) throw new UnfitConstraint(`has more than ${ruleLimit} rules`);
  const rules = new Map(starts.map((at) => [tokens[at - 2] ?? "", at]));
  const reader = new ExpressionReader(tokens, rules);
  let at = 0;
  // Each definition, also where a later one of the same name replaces it: llama.cpp reads both.
  for (const start of starts) {
    if (start !== at + 2) throw new UnfitConstraint(`cannot be read: ${JSON.stringify(tokens[at]?.slice(0, 20))}`);
    at = reader.check(start);
  }
  if (at < tokens.length) throw new UnfitConstraint("cannot be read");
}

/** The text cut into tokens. Throws UnfitConstraint at the first character that begins none: a text is looked at once. */
export function tokensOf(text: string, pattern: RegExp): string[] {
  const tokens: string[] = [];
  for (pattern.lastIndex = 0; pattern.lastIndex < text.length;) {
    const { lastIndex } = pattern;
    const found = pattern.exec(text)?.[0];
    if (found === undefined) throw new UnfitConstraint(`cannot be read at character ${lastIndex}`);
    tokens.push(found);
  }
  return tokens;
}
