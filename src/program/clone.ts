import { existsSync } from "node:fs";
import { join } from "node:path";

/** Whether the program is a clone of the sources, and not an installed package. */
export function isClone(root: string): boolean {
  return existsSync(join(root, "src/main/berth.ts")) && !root.includes("/node_modules/");
}
