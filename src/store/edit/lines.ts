/** Text by lines, for edits that touch nothing else. Offsets count UTF-16 units, as parsers give them. */

/** How the text ends its lines. */
export function lineEnd(text: string): "\n" | "\r\n" {
  return /^[^\n]*\r\n/.test(text) ? "\r\n" : "\n";
}

/** Where the line of `offset` begins. */
export function lineStart(text: string, offset: number): number {
  return offset === 0 ? 0 : text.lastIndexOf("\n", offset - 1) + 1;
}

/** Where the line after what ends at `end` begins; what ends with its line needs no more of it. */
export function nextLine(text: string, end: number): number {
  if (end > 0 && text[end - 1] === "\n") return end;
  const found = text.indexOf("\n", end);
  return found < 0 ? text.length : found + 1;
}

/** `end` without the line end that belongs to it. */
export function withoutLineEnd(text: string, end: number): number {
  if (text[end - 1] !== "\n") return end;
  return text[end - 2] === "\r" ? end - 2 : end - 1;
}

/** With other text from `start` to before `end`. */
export function replaced(text: string, start: number, end: number, by: string): string {
  return text.slice(0, start) + by + text.slice(end);
}

/** With whole lines in front of what begins at `at`. */
export function withLines(text: string, at: number, lines: readonly string[]): string {
  const end = lineEnd(text);
  const isCut = at > 0 && text[at - 1] !== "\n";
  return replaced(text, at, at, (isCut ? end : "") + lines.map((line) => line + end).join(""));
}
