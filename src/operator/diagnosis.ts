import type { Diagnostic } from "../store/store.ts";

/** What is wrong with a manifest, one `file:line:column: field: message` a line. */
export function describeDiagnostics(diagnostics: readonly Diagnostic[]): string {
  const lines = diagnostics.map(({ file, line, column, path, message }) => {
    const place = [file, line, column].filter((part) => part !== undefined).join(":");
    return `${place}: ${path === undefined || path.length === 0 ? "" : `${path.join(".")}: `}${message}`;
  });
  return lines.join("\n");
}
