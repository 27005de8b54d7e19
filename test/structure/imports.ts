/** One import as a source file states it. */
export interface Import {
  readonly specifier: string;
  readonly line: number;
  readonly isDynamic: boolean;
  /** Nothing of it is left when types are stripped. */
  readonly isTypeOnly: boolean;
}

const staticImport = /^(import|export)\b([^"';]*?)"([^"\n]+)"/gm;
const dynamicImport = /\bimport\(\s*(?:"([^"\n]+)"\s*\)|([^"\s)][^)\n]*))/g;

/**
 * Every import of a TypeScript source: static, re-exported, dynamic, of types. Relies on the formatter: double quotes,
 * static imports at the start of a line. A dynamic import of anything but a literal comes back as `specifier: "?"`.
 */
export function importsOf(source: string): Import[] {
  const found: Import[] = [];
  const text = withoutComments(source);
  const lineOf = (index: number): number => text.slice(0, index).split("\n").length;
  for (const match of text.matchAll(staticImport)) {
    const [, , clause = "", specifier = ""] = match;
    if (clause.trim() !== "" && !/\bfrom\s*$/.test(clause)) continue;
    found.push({ specifier, line: lineOf(match.index), isDynamic: false, isTypeOnly: isTypeClause(clause) });
  }
  for (const match of text.matchAll(dynamicImport)) {
    const [whole, literal] = match;
    // `import("x").Name` is a type; a value is awaited or chained by a method.
    const rest = text.slice(match.index + whole.length);
    const isTypeOnly = literal !== undefined && /^\.[A-Z]/.test(rest);
    found.push({ specifier: literal ?? "?", line: lineOf(match.index), isDynamic: !isTypeOnly, isTypeOnly });
  }
  return found.toSorted((a, b) => a.line - b.line);
}

function isTypeClause(clause: string): boolean {
  if (/^\s*type\b/.test(clause)) return true;
  const [, names] = /^\s*\{([^}]*)\}/.exec(clause) ?? [];
  if (names === undefined) return false;
  return names.split(",").every((name) => name.trim() === "" || name.trim().startsWith("type "));
}

/** Comments become spaces, so that lines keep their numbers. Good enough for code that a formatter has been over. */
function withoutComments(source: string): string {
  return source
    .replaceAll(/(?<=^|\s)\/\*[\s\S]*?\*\//g, (comment) => comment.replaceAll(/[^\n]/g, " "))
    .replaceAll(/^\s*\/\/.*$/gm, "");
}
