import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The embedded engine beside this code, and the directory for its installation without a clone. */
export const embeddedInClone = fileURLToPath(new URL("../../engines", import.meta.url));
export const embeddedInState = (stateDir: string): string => join(stateDir, "engines", "embedded");

/** Program and first argument of the embedded engine, when it is installed. */
export function findEmbedded(stateDir: string): readonly string[] | undefined {
  for (const directory of [embeddedInClone, embeddedInState(stateDir)]) {
    const isInstalled = existsSync(join(directory, "node_modules", "node-llama-cpp", "package.json"));
    if (isInstalled) return [process.execPath, join(directory, "src", "main.ts")];
  }
  return undefined;
}
