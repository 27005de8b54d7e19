import { lstat, readlink } from "node:fs/promises";
import { dirname, join, resolve, sep } from "node:path";

/** As many links as Linux follows in one path. */
const maxLinks = 40;

/**
 * The directories that hold the symbolic links which `path` leads through: swapping one of them makes `path` another
 * without any event in what it led to. Empty for a path without links; ends at what does not exist.
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
