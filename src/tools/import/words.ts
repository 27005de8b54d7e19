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
  const words = line.match(/(?:\\[^]|"(?:\\[^]|[^"\\])*(?:"|$)|'[^']*(?:'|$)|[^\s"'\\])+/g) ?? [];
  return words.map((word) =>
    word.replaceAll(
      /\\([^])|"((?:\\[^]|[^"\\])*)"?|'([^']*)'?/g,
      (_all, escaped?: string, double?: string, single?: string) =>
        escaped ?? double?.replaceAll(/\\(["\\$`])/g, "$1") ?? single ?? "",
    ),
  );
}

/** Text that Berth's `$(NAME)` leaves as it is written. */
export function literal(text: string): string {
  return text.replaceAll(/\$\((?=[A-Za-z_]\w*\))/g, "$$$$(");
}

const portFlag = /^-(?:p|-?(?:.*[-_.])?port)$/i;

/**
 * Words that Berth leaves as they are written, but for its own `$(PORT)` and for the engine's port. Only a number behind
 * the name of a port, or behind a colon, is that port.
 */
export function withPort(words: readonly string[], port = ""): readonly string[] {
  const plain = words.map((word) => word.split("$(PORT)").map(literal).join("$(PORT)"));
  if (!/^\d+$/.test(port)) return plain;
  const named = new RegExp(String.raw`(?<=(?<![a-z\d])port[ =])${port}(?![\w.])|(?<=:)${port}(?=$|[\s/"'])`, "gi");
  return plain.map((word, at) =>
    word === port && portFlag.test(words[at - 1] ?? "") ? "$(PORT)" : word.replaceAll(named, "$(PORT)"),
  );
}
