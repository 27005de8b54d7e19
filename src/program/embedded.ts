import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The embedded engine beside this code, in a clone or a release, and the directory for its installation elsewhere. */
export const embeddedBeside = fileURLToPath(new URL("../../engines", import.meta.url));
export const embeddedInState = (stateDir: string): string => join(stateDir, "engines", "embedded");

/** Program and first argument of the embedded engine, when it is installed. */
export function findEmbedded(stateDir: string): readonly string[] | undefined {
  for (const directory of [embeddedBeside, embeddedInState(stateDir)]) {
    if (hasEmbedded(directory)) return [process.execPath, join(directory, "src", "main.ts")];
  }
  return undefined;
}

/** Whether the packages of the embedded engine are in the directory. */
export function hasEmbedded(directory: string): boolean {
  return existsSync(join(directory, "node_modules", "node-llama-cpp", "package.json"));
}
