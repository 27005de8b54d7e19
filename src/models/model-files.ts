import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { errorCode } from "../lib/error-code.ts";

/** `name-00002-of-00005`: llama.cpp's names for the parts of one model. */
export const shard = /^(?<base>.+)-(?<index>\d{5})-of-(?<count>\d{5})$/;
/** The number of directories below the models directory in which Berth looks for files. */
export const depth = 2;

/** The files of one model on disk. */
export interface ModelFiles {
  readonly ref: string;
  /** Shards in order. */
  readonly paths: readonly string[];
  /** As the shards' names say; 1 without shards. */
  readonly shardCount: number;
}

/**
 * The GGUF files of a directory, two levels deep, links followed. An unreadable directory keeps the files that were
 * last listed: a failed read must not look like removed models.
 */
export class Listing {
  readonly #root: string;
  #seen = new Map<string, readonly Found[]>();

  constructor(root: string) {
    this.#root = root;
  }

  /** Absolute paths in order. Never throws. */
  async read(): Promise<readonly string[]> {
    const seen = new Map<string, readonly Found[]>();
    const files: string[] = [];
    const visit = async (directory: string, left: number): Promise<void> => {
      const entries = await this.#entries(directory);
      seen.set(directory, entries);
      for (const { path, isModel } of entries) {
        if (isModel) files.push(path);
        else if (left > 0) await visit(path, left - 1);
      }
    };
    await visit(this.#root, depth);
    this.#seen = seen;
    return files.toSorted();
  }

  async #entries(directory: string): Promise<readonly Found[]> {
    try {
      const entries = await readdir(directory, { withFileTypes: true });
      return entries.flatMap((entry) => {
        if (entry.name.startsWith(".")) return [];
        const path = join(directory, entry.name);
        const isModel = isGgufName(entry.name) && !entry.isDirectory();
        return isModel || entry.isDirectory() || entry.isSymbolicLink() ? [{ path, isModel }] : [];
      });
    } catch (error) {
      const code = errorCode(error);
      // Below the root a missing name, or a link to a file, is no failure.
      if (directory !== this.#root && (code === "ENOENT" || code === "ENOTDIR")) return [];
      return this.#seen.get(directory) ?? [];
    }
  }
}

interface Found {
  readonly path: string;
  readonly isModel: boolean;
}

/** A file in the format of llama.cpp, by its name. */
export function isGgufName(path: string): boolean {
  return /\.gguf$/i.test(path);
}

/** A projector for pictures, not a model, by its name: `mmproj*.gguf`, `model-mmproj-f16.gguf`. */
export function isProjectorName(path: string): boolean {
  return /(?:^|[-._])mmproj/i.test(basename(path));
}

/** Projectors by directory: of those directories that hold one model and one projector. */
export type Projectors = ReadonlyMap<string, string>;

/** The projectors among these files that are clearly those of one model. */
export function projectorsAmong(files: readonly string[], isProjector = isProjectorName): Projectors {
  const directories = new Map<string, string[]>();
  for (const file of files) {
    const beside = directories.get(dirname(file));
    if (beside === undefined) directories.set(dirname(file), [file]);
    else beside.push(file);
  }
  const found = new Map<string, string>();
  for (const [directory, beside] of directories) {
    const [projector, second] = beside.filter(isProjector);
    if (projector === undefined || second !== undefined) continue;
    if (modelFiles(beside, isProjector).length === 1) found.set(directory, projector);
  }
  return found;
}

/** Files by model: the shards of a model are one entry, projectors have none. In the order of their first files. */
export function modelFiles(files: readonly string[], isProjector = isProjectorName): readonly ModelFiles[] {
  const found = new Map<string, ModelFiles>();
  for (const path of files) {
    if (isProjector(path)) continue;
    const stem = basename(path).replace(/\.gguf$/i, "");
    const { base, count } = shard.exec(stem)?.groups ?? {};
    if (base === undefined || count === undefined) {
      found.set(path, { ref: stem, paths: [path], shardCount: 1 });
      continue;
    }
    const key = `${dirname(path)}/${base}-of-${count}`;
    const paths = [...(found.get(key)?.paths ?? []), path];
    found.set(key, { ref: base, paths, shardCount: Number(count) });
  }
  return [...found.values()];
}
