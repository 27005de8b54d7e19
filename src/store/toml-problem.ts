import { TomlError } from "smol-toml";
import type { Place } from "./documents.ts";

/** What is wrong with a text that is no TOML, in one line, and where. Throws any other error again. */
export function tomlProblem(error: unknown): Place & { readonly message: string } {
  if (!(error instanceof TomlError)) throw error;
  const [message = "invalid TOML"] = error.message.replace(/^Invalid TOML document: /, "").split("\n");
  return { line: error.line, column: error.column, message };
}
