import { constants } from "node:fs";
import { access, readdir, readFile, realpath, stat, statfs } from "node:fs/promises";
import { join, relative } from "node:path";
import { errorCode } from "../lib/error-code.ts";
import { programOutput } from "../lib/program-output.ts";

/** A device file, and whether this user may open it. */
export interface NodeEntry {
  /** Permission bits. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Why it may not be read and written, e.g. EACCES; undefined: it may be. */
  readonly refusal: string | undefined;
}

/** The reads of a probe. Paths begin with a slash and lie below the root directory of the machine. */
export interface Machine {
  readonly architecture: string;
  /** The user whose rights are tried. */
  readonly user: { readonly uid: number; readonly groups: readonly number[] };
  /** Undefined for a missing file. Rejects when it cannot be read. */
  text(path: string): Promise<string | undefined>;
  /** Names in a directory, sorted; none for a missing directory. Rejects when it cannot be read. */
  names(path: string): Promise<readonly string[]>;
  /** The target of a link, below the root; undefined for a broken link. */
  target(path: string): Promise<string | undefined>;
  /** Undefined for a missing file. Rejects when its status cannot be read. */
  node(path: string): Promise<NodeEntry | undefined>;
  /** Takes a real path, independent of the root. Rejects for a missing directory. */
  space(path: string): Promise<{ readonly totalBytes: number; readonly freeBytes: number }>;
  /** The output of a program. Rejects when it is missing, fails, or `signal` aborts first. */
  run(program: string, args: readonly string[], signal: AbortSignal): Promise<string>;
  now(): Date;
}

/** The machine this process runs on. `root`: a directory with the same layout, in tests. */
export function systemMachine(root = "/"): Machine {
  return {
    architecture: process.arch,
    user: {
      uid: process.getuid?.() ?? 0,
      groups: [...new Set([process.getgid?.() ?? 0, ...(process.getgroups?.() ?? [])])],
    },
    text: (path) => unlessAbsent(readFile(join(root, path), "utf8")),
    names: async (path) => (await unlessAbsent(readdir(join(root, path))))?.toSorted(byNumber) ?? [],
    async target(path) {
      const [base, real] = await Promise.all([realpath(root), realpath(join(root, path))]).catch(() => []);
      return base === undefined || real === undefined ? undefined : `/${relative(base, real)}`;
    },
    async node(path) {
      const found = await unlessAbsent(stat(join(root, path)));
      if (found === undefined) return undefined;
      const refusal = await access(join(root, path), constants.R_OK | constants.W_OK).then(
        () => undefined,
        (error: unknown) => errorCode(error) ?? "unknown",
      );
      return { mode: found.mode & 0o777, uid: found.uid, gid: found.gid, refusal };
    },
    async space(path) {
      const { blocks, bavail, bsize } = await statfs(path);
      return { totalBytes: blocks * bsize, freeBytes: bavail * bsize };
    },
    run,
    now: () => new Date(),
  };
}

async function unlessAbsent<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    const code = errorCode(error);
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  }
}

/** `renderD129` before `renderD1280`. By a collator this would take 10 ms of each start. */
function byNumber(one: string, other: string): number {
  const [left, right] = [one, other].map((name) => name.replaceAll(/\d+/g, (digits) => digits.padStart(20, "0")));
  return (left ?? "") < (right ?? "") ? -1 : 1;
}

async function run(program: string, args: readonly string[], signal: AbortSignal): Promise<string> {
  try {
    return await programOutput(program, args, { signal });
  } catch (error) {
    throw signal.aborted ? new Error("it does not answer", { cause: error }) : error;
  }
}
