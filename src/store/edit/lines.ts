/** Text by lines, for edits that change nothing else. Offsets count UTF-16 units, as parsers give them. */

/** The line end of the text. */
export function lineEnd(text: string): "\n" | "\r\n" {
  return /^[^\n]*\r\n/.test(text) ? "\r\n" : "\n";
}

/** The start of the line of `offset`. */
export function lineStart(text: string, offset: number): number {
  return offset === 0 ? 0 : text.lastIndexOf("\n", offset - 1) + 1;
}

/**
 * The start of the line after the element that ends at `end`; an element that ends with its line is followed by no rest
 * of it.
 */
export function nextLine(text: string, end: number): number {
  if (end > 0 && text[end - 1] === "\n") return end;
  const found = text.indexOf("\n", end);
  return found < 0 ? text.length : found + 1;
}

/** The text with another text from `start` to before `end`. */
export function replaced(text: string, start: number, end: number, by: string): string {
  return text.slice(0, start) + by + text.slice(end);
}

/** The text with whole lines inserted before the element at `at`. */
export function withLines(text: string, at: number, lines: readonly string[]): string {
  const end = lineEnd(text);
  const isCut = at > 0 && text[at - 1] !== "\n";
  return replaced(text, at, at, (isCut ? end : "") + lines.map((line) => line + end).join(""));
}
