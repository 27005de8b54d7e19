import { createReadStream, createWriteStream } from "node:fs";
import { closeSync, ftruncateSync, openSync, readSync, renameSync, statSync, truncateSync, writeSync } from "node:fs";
import { rm } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { errorCode } from "../../lib/error-code.ts";

/** The default size limit of a log. */
export const defaultLogBytes = 16 * 1024 * 1024;

/** The file of a log's older part. */
export const rotatedFile = (path: string): string => `${path}.1`;

/**
 * Copies a log that has grown past `limitBytes` to `.1` and empties it. Its engine keeps writing meanwhile: it opened
 * the file to append, so its next line goes to the new end. `.1` keeps every byte at its old offset, so that a reader
 * can finish there, unless the log is so large (the operator was down) that only its newest part is kept. A line
 * written between the last read and the cut, two system calls, is lost. On a full disk `.1` is removed: the log must
 * not keep it full.
 */
export async function rotateLog(path: string, limitBytes: number): Promise<void> {
  // Every second for every engine: a task on the thread pool would cost ten times the call.
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined || found.size <= limitBytes) return;
  // One at a time: a second rotation would replace the first one's copy by an empty file.
  let running = rotating.get(path);
  if (running === undefined) {
    running = rotate(path, found, limitBytes).finally(() => rotating.delete(path));
    rotating.set(path, running);
  }
  await running;
}

/** Logs that are being rotated now. */
const rotating = new Map<string, Promise<void>>();

async function rotate(path: string, found: { readonly size: number }, limitBytes: number): Promise<void> {
  const temporary = `${path}.1.tmp`;
  try {
    const start = found.size > 2 * limitBytes ? found.size - limitBytes : 0;
    await pipeline(
      createReadStream(path, { start, end: found.size - 1 }),
      createWriteStream(temporary, { mode: 0o640 }),
    );
    using files = new DisposableStack();
    const log = files.adopt(openSync(path, "r+"), closeSync);
    const copy = files.adopt(openSync(temporary, "a"), closeSync);
    const limit = found.size + limitBytes;
    const end = catchUp(log, copy, found.size, limit);
    renameSync(temporary, rotatedFile(path));
    // All in one turn, and nothing between the last read and the cut: bytes written there are lost.
    catchUp(log, copy, end, limit);
    ftruncateSync(log, 0);
  } catch (error) {
    await rm(temporary, { force: true });
    if (errorCode(error) !== "ENOSPC" && errorCode(error) !== "EDQUOT") throw error;
    await rm(rotatedFile(path), { force: true });
    truncateSync(path, 0);
  }
}

/**
 * Copies new bytes, until a read finds none. Returns the end of the copy: `limit` where the writer is faster, and later
 * bytes are lost.
 */
function catchUp(log: number, copy: number, from: number, limit: number): number {
  const buffer = Buffer.alloc(65_536);
  let position = from;
  while (position < limit) {
    const length = readSync(log, buffer, 0, buffer.length, position);
    if (length === 0) break;
    // A nearly full disk takes a part; the rest is read again.
    position += writeSync(copy, buffer, 0, length);
  }
  return position;
}
