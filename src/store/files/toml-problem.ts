import { TomlError } from "smol-toml";
import type { TextPosition } from "./text-position.ts";

/** The problem of a text that is no TOML, in one line, and its position. Throws any other error again. */
export function tomlProblem(error: unknown, text: string): TextPosition & { readonly message: string } {
  const conflict = conflictMarker(text);
  if (conflict !== undefined) return conflict;
  if (!(error instanceof TomlError)) throw error;
  const { line, column } = error;
  const [said = "invalid TOML"] = error.message.replace(/^Invalid TOML document: /, "").split("\n");
  const at = text.split("\n")[line - 1] ?? "";
  return { line, column, message: inWords(said, at, column) };
}

/** The position of a conflict marker that Git left in a file; undefined without one. */
export function conflictMarker(text: string): (TextPosition & { readonly message: string }) | undefined {
  const line = text.split("\n").findIndex((each) => /^(<{7}|>{7}|\|{7}) |^={7}\r?$/.test(each)) + 1;
  if (line === 0) return undefined;
  return { line, column: 1, message: "a conflict marker of a merge: keep one side, and delete the markers" };
}

/** The parser's message where it is clear enough. Nothing of the line is repeated: it may hold a secret. */
function inWords(said: string, line: string, column: number): string {
  const isAtEnd = column > line.trimEnd().length;
  if (/[“”„‘’]/.test(line) && said !== "unfinished string") {
    return "these are typographic quotes; TOML has only straight ones";
  }
  switch (said) {
    case "control characters are not allowed in strings":
      return isAtEnd ? "a text does not end in its line: its closing quote is missing" : said;
    case "unfinished string":
      return "a text does not end: its closing quotes are missing";
    case "illegal character in key":
      if (/^\s*\[/.test(line) && !line.includes("]")) return 'the "]" of this table\'s name is missing';
      return line.includes("=") ? said : 'this is no `key = value`: the "=" is missing';
    case "invalid value":
      return isAtEnd ? "the value is missing" : "this is no value; texts stand in quotes";
    case "trying to redefine an already defined table or value":
      return "this is defined twice";
    case "document contains excessively nested structures. aborting.":
      return "this is nested too deeply";
    case "expected comma or end of structure":
      return "a comma or a closing bracket is missing before this";
    default:
      return said;
  }
}
