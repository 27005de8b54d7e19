import { createReadStream, createWriteStream } from "node:fs";
import { closeSync, openSync, readSync, renameSync, statSync, truncateSync, writeSync } from "node:fs";
import { rm } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { errorCode } from "../lib/error-code.ts";

/** What a log may grow to unless told otherwise. */
export const defaultLogBytes = 16 * 1024 * 1024;

/** Where the older part of a log is kept. */
export const rotatedFile = (path: string): string => `${path}.1`;

/**
 * Copies a log that has grown past `limitBytes` to `.1` and empties it. Its engine keeps writing meanwhile: it opened
 * the file to append, so its next line lands at the new end. `.1` keeps every byte at its old offset, so that a reader
 * can finish there, unless the log is so large (the operator was away) that only its newest part is kept.
 * A line written during the last instant may be lost. On a full disk `.1` is given up: the log must not keep it full.
 */
export async function rotateLog(path: string, limitBytes: number): Promise<void> {
  // Every second for every engine: a thread of the pool would cost ten times what is asked of it.
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined || found.size <= limitBytes) return;
  // One at a time: a second one would put what the first has left, nothing, in the place of its copy.
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
    appendRest(path, temporary, found.size, limitBytes);
    renameSync(temporary, rotatedFile(path));
  } catch (error) {
    await rm(temporary, { force: true });
    if (errorCode(error) !== "ENOSPC" && errorCode(error) !== "EDQUOT") throw error;
    await rm(rotatedFile(path), { force: true });
  }
  // In one turn with the copy of the rest: between them the fewest lines are lost.
  truncateSync(path, 0);
}

/**
 * What was written while the bulk was copied. Goes on until a look finds nothing new, so that between it and the cut
 * there is time for next to nothing; a writer that is never caught up with loses what comes after another `limitBytes`.
 */
function appendRest(path: string, temporary: string, offset: number, limitBytes: number): void {
  const from = openSync(path, "r");
  const to = openSync(temporary, "a");
  try {
    const buffer = Buffer.alloc(65_536);
    for (let position = offset; position < offset + limitBytes;) {
      const length = readSync(from, buffer, 0, buffer.length, position);
      if (length === 0) return;
      writeSync(to, buffer, 0, length);
      position += length;
    }
  } finally {
    closeSync(from);
    closeSync(to);
  }
}
