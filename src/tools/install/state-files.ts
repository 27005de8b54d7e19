import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "../../lib/error-code.ts";
import { readTextOrNothing } from "../../lib/read-text.ts";

/** The texts of the JSON files of a flat directory; none for a missing directory, undefined for an unreadable one. */
export async function filesIn(directory: string): Promise<readonly string[] | undefined> {
  try {
    const names = (await readdir(directory)).filter((name) => name.endsWith(".json") && !name.startsWith("."));
    // A file that is removed meanwhile counts as empty.
    return await Promise.all(names.map((name) => readTextOrNothing(join(directory, name))));
  } catch (error) {
    return errorCode(error) === "ENOENT" ? [] : undefined;
  }
}
