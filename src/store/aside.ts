import { mkdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "../lib/error-code.ts";

/** A torn file, or one of another version, is kept for a person to look at and is in nobody's way. */
export async function setAside(stateDir: string, path: string, name: string): Promise<void> {
  const aside = join(stateDir, "aside");
  await mkdir(aside, { recursive: true });
  try {
    await rename(path, join(aside, `${Date.now()}-${name}`));
  } catch (error) {
    if (errorCode(error) !== "ENOENT") throw error;
  }
}
