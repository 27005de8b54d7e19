import type { Diagnostic } from "./store.ts";
export function readBerthToml(
  configDir: string,
): Promise<{ values: Record<string, unknown>; diagnostics: Diagnostic[] }> {
  throw new Error(`not yet: ${configDir}`);
}
export function isReadOnly(configDir: string): Promise<boolean> {
  throw new Error(`not yet: ${configDir}`);
}
