import { mkdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "./error-code.ts";

/** Moves away a torn file, or a file of another version: a person can still read it, and it blocks nothing. */
export async function setAside(stateDir: string, path: string, name: string): Promise<void> {
  const aside = join(stateDir, "aside");
  await mkdir(aside, { recursive: true });
  for (let at = Date.now(); ; at += 1) {
    try {
      await rename(path, join(aside, `${at}-${name}`));
      return;
    } catch (error) {
      if (errorCode(error) === "ENOENT") return;
      // A directory cannot replace another directory that was set aside in the same millisecond.
      if (errorCode(error) !== "ENOTEMPTY" && errorCode(error) !== "EEXIST" && errorCode(error) !== "ENOTDIR")
        throw error;
    }
  }
}
