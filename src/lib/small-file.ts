import { isUtf8 } from "node:buffer";
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { errorCode } from "./error-code.ts";
import { parseJson } from "./json.ts";

/**
 * A file that is refused: a named pipe may never end, and a huge file takes all memory. The message names the reason.
 */
export class UnfitFile extends Error {
  override readonly name = "UnfitFile";
}

/** Throws UnfitFile for more bytes than the limit, which is a whole number of KiB. */
export function refuseLargeFile(sizeBytes: number, limitBytes: number): void {
  if (sizeBytes <= limitBytes) return;
  const limit = limitBytes < 1024 ** 2 ? `${limitBytes / 1024} KiB` : `${limitBytes / 1024 ** 2} MiB`;
  throw new UnfitFile(`it is larger than ${limit}, the limit of such a file`);
}

/** Throws UnfitFile for bytes that are no UTF-8: broken letters would stand in its place. */
export function utf8Text(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new UnfitFile("it is not UTF-8: save it as UTF-8");
  return bytes.toString();
}

/**
 * The text of a small plain file of Berth's own, read synchronously. Never waits for a writer of a pipe, and follows no
 * link. Throws UnfitFile, or the system's error.
 */
export function readPlainText(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY | constants.O_NOFOLLOW);
  try {
    if (!fstatSync(file).isFile()) throw new UnfitFile("it is no plain file");
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

/** The JSON value of such a file; undefined where it is missing, or is not JSON. Throws as `readPlainText` does. */
export function readPlainJson(path: string): unknown {
  try {
    return parseJson(readPlainText(path));
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * The text of a plain file of at most `limitBytes`. Never waits for a writer of a pipe. Rejects with UnfitFile, or with
 * the system's error.
 */
export async function readSmallText(path: string, limitBytes: number): Promise<string> {
  // Without O_NONBLOCK, opening a named pipe waits for its writer, on one of the few threads that all reads share.
  await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  const status = await file.stat();
  if (!status.isFile()) throw new UnfitFile("it is no plain file");
  refuseLargeFile(status.size, limitBytes);
  // The file may grow meanwhile, and files of /proc report a size of 0.
  const room = Math.min(limitBytes, status.size * 2 + 16_384) + 1;
  const bytes = Buffer.allocUnsafe(room);
  let length = 0;
  for (;;) {
    const { bytesRead } = await file.read(bytes, length, bytes.length - length, null);
    length += bytesRead;
    refuseLargeFile(length, limitBytes);
    if (bytesRead === 0) return utf8Text(bytes.subarray(0, length));
    if (length === room) throw new UnfitFile("it grows while it is read");
  }
}
