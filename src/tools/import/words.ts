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

/** Text that Berth leaves as it is written, but for its own `$(PORT)` and for the engine's number of a port. */
export function withPort(text: string, port: string | undefined): string {
  const plain = text.split("$(PORT)").map(literal).join("$(PORT)");
  if (port === undefined) return plain;
  return plain.replaceAll(new RegExp(String.raw`(?<!\d)${port}(?!\d)`, "g"), "$(PORT)");
}
