/** The text without lines that begin with `#`. */
export function withoutComments(text: string): string {
  const lines = text.split("\n").filter((line) => !line.trimStart().startsWith("#"));
  return lines.join("\n");
}

/**
 * The words of a command line, as a POSIX shell splits them: blanks separate, quotes and backslashes keep. Nothing is
 * expanded. A backslash joins a line to the next. An open quote ends with the text.
 */
export function wordsOf(text: string): string[] {
  const line = text.replaceAll(/\\[ \t]*\r?\n/g, " ");
  const words: string[] = [];
  let word: string | undefined;
  let quote = "";
  for (let at = 0; at < line.length; at += 1) {
    const letter = line[at] ?? "";
    if (quote !== "" && letter === quote) quote = "";
    else if (letter === "\\" && quote !== "'" && (quote === "" || /["\\$`]/.test(line[at + 1] ?? ""))) {
      at += 1;
      word = (word ?? "") + (line[at] ?? "");
    } else if (quote === "" && (letter === '"' || letter === "'")) {
      quote = letter;
      word ??= "";
    } else if (quote === "" && /\s/.test(letter)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? "") + letter;
  }
  if (word !== undefined) words.push(word);
  return words;
}

/** Text that Berth's `$(NAME)` leaves as it is written. */
export function literal(text: string): string {
  return text.replaceAll(/\$\((?=[A-Za-z_]\w*\))/g, "$$$$(");
}
