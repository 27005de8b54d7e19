import { diagnosticLine } from "../api/diagnostic.ts";
import type { Diagnostic } from "../store/store.ts";

/** What is wrong with a manifest, one problem a line. */
export function describeDiagnostics(diagnostics: readonly Diagnostic[]): string {
  return diagnostics.map(diagnosticLine).join("\n");
}
