import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "../../lib/error-code.ts";

/** The JSON files of a flat directory, each as its text; none where there is none, undefined where nobody may look. */
export async function filesIn(directory: string): Promise<readonly string[] | undefined> {
  try {
    const names = (await readdir(directory)).filter((name) => name.endsWith(".json") && !name.startsWith("."));
    // One that goes meanwhile says nothing.
    return await Promise.all(names.map((name) => readFile(join(directory, name), "utf8").catch(() => "")));
  } catch (error) {
    return errorCode(error) === "ENOENT" ? [] : undefined;
  }
}
