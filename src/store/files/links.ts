import { lstat, readlink } from "node:fs/promises";
import { dirname, join, resolve, sep } from "node:path";

/** The number of links that Linux follows in one path. */
const maxLinks = 40;

/**
 * The directories of the symbolic links on the way to `path`: swapping one of them changes the target of `path` without
 * any event in the old target. Empty for a path without links; ends at a missing directory.
 */
export async function linkDirectories(path: string): Promise<Set<string>> {
  const found = new Set<string>();
  let rest = resolve(path).split(sep).filter(Boolean);
  let at = "/";
  let links = 0;
  while (rest.length > 0) {
    const [part = "", ...others] = rest;
    const next = join(at, part);
    const status = await lstat(next).catch(() => undefined);
    if (status === undefined) break;
    if (!status.isSymbolicLink()) {
      at = next;
      rest = others;
      continue;
    }
    found.add(at);
    if (++links > maxLinks) break;
    const target = resolve(at, await readlink(next).catch(() => "."));
    rest = [...target.split(sep).filter(Boolean), ...others];
    at = "/";
  }
  return found;
}

/** The nearest directory above `path` that exists. */
export async function nearestParent(path: string): Promise<string> {
  for (let at = dirname(path); ; at = dirname(at)) {
    if (at === dirname(at) || (await lstat(at).catch(() => undefined)) !== undefined) return at;
  }
}
