import { existsSync } from "node:fs";
import { join } from "node:path";

/** Whether the program lies there as a clone of the sources, and not as an installed package. */
export function isClone(root: string): boolean {
  return existsSync(join(root, "src/main/berth.ts")) && !root.includes("/node_modules/");
}
