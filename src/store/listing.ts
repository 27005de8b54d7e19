import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "../lib/error-code.ts";
import { isManifestFile } from "./manifest.ts";
import type { SourceProblem } from "./store.ts";

export interface Listing {
  /** Manifest files by path. */
  readonly files: ReadonlyMap<string, { readonly stamp: string; readonly mtimeMs: number }>;
  /** Device and inode of the directories that exist. */
  readonly identity: string;
  /** Directories that are not there or cannot be read: then nothing may be concluded from what is missing. */
  readonly problems: readonly SourceProblem[];
}

/** One look at a configuration directory; follows symbolic links, so a swapped link is another stamp. */
export async function listManifests(configDir: string, directories: readonly string[]): Promise<Listing> {
  const files = new Map<string, { stamp: string; mtimeMs: number }>();
  const problems: SourceProblem[] = [];
  const identities: string[] = [];
  const root = await identityOf(configDir);
  if (root === undefined) {
    problems.push({
      reason: "SourceMissing",
      message: `${configDir} does not exist or cannot be read`,
      file: configDir,
    });
    return { files, identity: "", problems };
  }
  identities.push(root);
  for (const directory of directories) {
    const path = join(configDir, directory);
    let names: string[];
    try {
      names = await readdir(path);
      identities.push((await identityOf(path)) ?? "");
    } catch (error) {
      // A kind without a directory has no files. Anything else is a failed read.
      if (errorCode(error) !== "ENOENT") {
        problems.push({
          reason: "SourceUnreadable",
          message: `${path} cannot be read (${errorCode(error) ?? String(error)})`,
          file: path,
        });
      }
      continue;
    }
    await Promise.all(
      names.filter(isManifestFile).map(async (name) => {
        const file = join(path, name);
        try {
          const { size, mtimeMs, ino, dev, isFile } = await statOf(file);
          if (isFile) files.set(file, { stamp: `${dev}:${ino}:${size}:${mtimeMs}`, mtimeMs });
        } catch (error) {
          // A link whose target is gone is a file that is gone.
          if (errorCode(error) !== "ENOENT") {
            problems.push({
              reason: "SourceUnreadable",
              message: `${file} cannot be read (${errorCode(error) ?? String(error)})`,
              file,
            });
          }
        }
      }),
    );
  }
  return {
    files: new Map([...files].toSorted(([a], [b]) => (a < b ? -1 : 1))),
    identity: identities.join(" "),
    problems,
  };
}

async function statOf(
  path: string,
): Promise<{ size: number; mtimeMs: number; ino: number; dev: number; isFile: boolean }> {
  const found = await stat(path);
  return { size: found.size, mtimeMs: found.mtimeMs, ino: found.ino, dev: found.dev, isFile: found.isFile() };
}

async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await stat(path);
    return `${dev}:${ino}`;
  } catch {
    return undefined;
  }
}
