/** Deeper than any manifest; functions that walk a value recursively must not exhaust the stack. */
const deepest = 64;
/** More than any manifest has; checks of every value of a body must not block other requests. */
const mostValues = 10_000;

/** Why a value that is not `isWellFormed` is refused. */
export const halfCharacter = "holds half a character (a surrogate on its own)";

/**
 * Why a JSON text is refused: too deep, or too many values; undefined where it may be parsed. Checked before parsing, and
 * without recursion. Skips texts, since a conversation's pictures are long ones.
 */
export function excessOf(text: string): string | undefined {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (letter === '"') at = endOfText(text, at);
    else if (letter === "{" || letter === "[") {
      depth += 1;
      if (depth > deepest) return `is nested more than ${deepest} deep`;
    } else if (letter === "}" || letter === "]") depth -= 1;
    else if (letter === ",") {
      values += 1;
      if (values > mostValues) return `holds more than ${mostValues} values`;
    }
  }
  return undefined;
}

/** Where the quotation mark is that ends the text that begins at `start`; the body's length where none ends it. */
function endOfText(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let before = at;
    while (text[before - 1] === "\\") before -= 1;
    // Of an even number of backslashes each pair is one backslash of the text.
    if ((at - before) % 2 === 0) return at;
  }
  return text.length;
}

/** Whether no text in the value has a surrogate on its own, which no file could hold. */
export function isWellFormed(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, inner]) => key.isWellFormed() && isWellFormed(inner));
}
