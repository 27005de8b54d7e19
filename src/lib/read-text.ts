import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { errorCode } from "./error-code.ts";
import { UnfitFile } from "./small-file.ts";

/**
 * A file's text; undefined for a missing file. Rejects when it cannot be read, and with UnfitFile for anything but a
 * plain file: a named pipe is not waited for.
 */
export async function readText(path: string): Promise<string | undefined> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    const status = await file.stat();
    if (!status.isFile() && !status.isDirectory()) throw new UnfitFile("it is no plain file");
    return await file.readFile("utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** The same, and empty for a missing or unreadable file. */
export async function readTextOrNothing(path: string): Promise<string> {
  return (await readText(path).catch(() => undefined)) ?? "";
}
