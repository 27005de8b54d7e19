import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { refuseLargeFile, UnfitFile, utf8Text } from "../../lib/small-file.ts";
import { distrust, distrustOpened, type Distrust } from "../../lib/trusted-path.ts";
import { manifestLimitBytes } from "./manifest-limit.ts";
import type { SourceProblem } from "../store.ts";

/** A manifest that another user could have written. The message has the reason and the remedy. */
export class UntrustedManifest extends Error {
  override readonly name = "UntrustedManifest";

  constructor({ reason, next }: Distrust) {
    // The remedy alone would put in force what the other user has written.
    super(`is not read: ${reason}; check what it holds, then ${next}`);
  }
}

/**
 * The text of a manifest. Synchronous: blocking for a small local file costs a tenth of a promise. Throws
 * UntrustedManifest where a user other than this process's user and root may write the file; UnfitFile; or the system's
 * error. The directories of the file are judged apart (`unsafeDirectories`).
 */
export function readManifestText(file: string): string {
  // Opening a named pipe without O_NONBLOCK would wait for its writer.
  const opened = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    const status = fstatSync(opened);
    if (!status.isFile()) throw new UnfitFile("it is no plain file");
    refuseLargeFile(status.size, manifestLimitBytes);
    const text = utf8Text(readFileSync(opened));
    // Of the descriptor, and after the read: neither another file at the path nor a change of the mode comes between.
    const found = distrustOpened(file, fstatSync(opened));
    if (found !== undefined) throw new UntrustedManifest(found);
    return text;
  } finally {
    closeSync(opened);
  }
}

/** Undefined where `readManifestText` throws. */
export function manifestTextOrNothing(file: string): string | undefined {
  try {
    return readManifestText(file);
  } catch {
    return undefined;
  }
}

/** Why `readManifestText` has thrown, as the message of a diagnostic, whose file is named beside it. */
export function whyUnread(error: unknown): string {
  if (error instanceof UntrustedManifest) return error.message;
  return `cannot be read (${errorCode(error) ?? errorMessage(error)})`;
}

/** The directories in which another user could make, replace or remove a file, each with the reason. */
export function unsafeDirectories(directories: Iterable<string>): ReadonlyMap<string, Distrust> {
  const unsafe = new Map<string, Distrust>();
  for (const directory of directories) {
    const found = distrust(directory);
    if (found !== undefined) unsafe.set(directory, found);
  }
  return unsafe;
}

/** One for each reason: one directory above may concern all. */
export function problemsOf(unsafe: ReadonlyMap<string, Distrust>): readonly SourceProblem[] {
  const byReason = new Map([...unsafe].map(([file, found]) => [found.reason, { file, ...found }]));
  return [...byReason.values()].map(({ file, reason, next }) => {
    const message = `${reason}: no manifest there is read, and the earlier declarations stay in force; ${next}`;
    return { reason: "SourceUnsafe", message, file };
  });
}
