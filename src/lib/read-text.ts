import { readFile } from "node:fs/promises";
import { errorCode } from "./error-code.ts";

/** A file's text; undefined where there is no such file. Rejects when it cannot be read. */
export async function readText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
