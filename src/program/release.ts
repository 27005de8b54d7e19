import { existsSync } from "node:fs";
import { join } from "node:path";

/** Whether the program is an unpacked release: one tree with its own Node, packages and embedded engine. */
export function isRelease(root: string): boolean {
  return existsSync(join(root, "release.json")) && existsSync(join(root, "package.json"));
}
