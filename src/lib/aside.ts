import { mkdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "./error-code.ts";

/** A torn file, or one of another version, is kept for a person to look at and is in nobody's way. */
export async function setAside(stateDir: string, path: string, name: string): Promise<void> {
  const aside = join(stateDir, "aside");
  await mkdir(aside, { recursive: true });
  for (let at = Date.now(); ; at += 1) {
    try {
      await rename(path, join(aside, `${at}-${name}`));
      return;
    } catch (error) {
      if (errorCode(error) === "ENOENT") return;
      // A directory cannot take the place of one that was set aside in the same millisecond.
      if (errorCode(error) !== "ENOTEMPTY" && errorCode(error) !== "EEXIST" && errorCode(error) !== "ENOTDIR")
        throw error;
    }
  }
}
