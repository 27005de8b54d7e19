import { closeSync, constants, fstatSync, openSync, writeSync } from "node:fs";
import { errorCode } from "./error-code.ts";

/** The disk is full, or the user's quota is used up. */
export function isNoSpace(error: unknown): boolean {
  const code = errorCode(error);
  return code === "ENOSPC" || code === "EDQUOT";
}

/** The error with the path of the file, which the system leaves out where an open file is written to. */
export function namingFile(error: unknown, path: string): unknown {
  return error instanceof Error && isNoSpace(error) && !("path" in error) ? Object.assign(error, { path }) : error;
}

/**
 * Writes JSON into an existing file in place, within the blocks that the file already has: a full disk still permits
 * that on most file systems. Spaces fill the rest, so that the file is never truncated. A reader may see a mix of old
 * and new text, which is no valid JSON, and reads again. False: the text does not fit, or writing in place fails.
 */
export function overwroteInPlace(path: string, json: string): boolean {
  let file: number;
  try {
    file = openSync(path, constants.O_WRONLY | constants.O_NOFOLLOW);
  } catch {
    return false;
  }
  try {
    const { size, blocks } = fstatSync(file);
    const bytes = Buffer.from(json);
    if (bytes.length > Math.max(size, blocks * 512)) return false;
    const whole = Buffer.concat([bytes, Buffer.alloc(Math.max(0, size - bytes.length), " ")]);
    return writeSync(file, whole, 0, whole.length, 0) === whole.length;
  } catch {
    return false;
  } finally {
    closeSync(file);
  }
}
