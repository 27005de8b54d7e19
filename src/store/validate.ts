import type { Diagnostic } from "./store.ts";
export function validateDirectory(configDir: string): Promise<Diagnostic[]> {
  throw new Error(`not yet: ${configDir}`);
}
