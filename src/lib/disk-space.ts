import { closeSync, constants, fstatSync, openSync, writeSync } from "node:fs";
import { errorCode } from "./error-code.ts";

/** The disk is full, or the user's share of it. */
export function isNoSpace(error: unknown): boolean {
  const code = errorCode(error);
  return code === "ENOSPC" || code === "EDQUOT";
}

/**
 * Puts JSON into a file in place, within the blocks that the file has already: what a full disk still allows on most file
 * systems. Spaces fill the rest, so that no moment has a file that was cut. A reader may see half of the old and half of
 * the new, which no JSON reader takes, and reads again. False: the text does not fit, or that does not go here.
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
