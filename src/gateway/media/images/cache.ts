import { randomUUID } from "node:crypto";
import { mkdir, open, readdir, rm, stat, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { removeLeftovers, writeFileAtomic } from "../../../lib/atomic-file.ts";
import { errorCode } from "../../../lib/error-code.ts";
import { Serial } from "../../../lib/serial.ts";

export interface ImageCacheLimits {
  readonly maxFiles: number;
  readonly maxBytes: number;
}

/** An open image. The file stays readable, even when the cache removes it meanwhile. */
export interface CachedImage {
  readonly sizeBytes: number;
  readonly file: FileHandle;
}

const namePattern = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.png$/;

/**
 * PNG files of the last answers, in a directory of their own. The file with the oldest access is removed first; a
 * file's modification time is its last access, so the order outlives this process. The directory is the only source of
 * truth: gateways that share it keep to the limits together.
 */
export class ImageCache {
  readonly #dir: string;
  readonly #limits: ImageCacheLimits;
  readonly #writes = new Serial();

  constructor(dir: string, limits: ImageCacheLimits = { maxFiles: 100, maxBytes: 1024 ** 3 }) {
    this.#dir = dir;
    this.#limits = limits;
  }

  /** Keeps the images and returns their names, `<uuid>.png`, in order. Rejects with the file system's error. */
  async put(images: readonly Buffer[]): Promise<readonly string[]> {
    return await this.#writes.run(async () => {
      await mkdir(this.#dir, { recursive: true });
      const names: string[] = [];
      for (const image of images) {
        const name = `${randomUUID()}.png`;
        await writeFileAtomic(join(this.#dir, name), image, { fsync: false, mode: 0o600 });
        names.push(name);
      }
      await this.#evict(new Set(names));
      return names;
    });
  }

  /**
   * Opens an image for reading, and records the access; undefined for an unknown name. Names that this cache never
   * creates, such as paths, are never looked up. The caller closes the file.
   */
  async open(name: string): Promise<CachedImage | undefined> {
    if (!namePattern.test(name)) return undefined;
    let file: FileHandle;
    try {
      file = await open(join(this.#dir, name), "r");
    } catch (error) {
      if (errorCode(error) === "ENOENT") return undefined;
      throw error;
    }
    try {
      const { size } = await file.stat();
      const now = (performance.timeOrigin + performance.now()) / 1000;
      await file.utimes(now, now);
      return { sizeBytes: size, file };
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** Removes the files with the oldest access until the limits hold; new files stay for their client. */
  async #evict(fresh: ReadonlySet<string>): Promise<void> {
    await removeLeftovers(this.#dir);
    const files: { name: string; readAt: number; size: number }[] = [];
    for (const name of await readdir(this.#dir)) {
      if (!namePattern.test(name)) continue;
      const found = await stat(join(this.#dir, name)).catch(() => undefined);
      if (found !== undefined) files.push({ name, readAt: found.mtimeMs, size: found.size });
    }
    let count = files.length;
    let bytes = files.reduce((sum, { size }) => sum + size, 0);
    for (const { name, size } of files.toSorted((a, b) => a.readAt - b.readAt)) {
      if (count <= this.#limits.maxFiles && bytes <= this.#limits.maxBytes) return;
      if (fresh.has(name)) continue;
      await rm(join(this.#dir, name), { force: true });
      count -= 1;
      bytes -= size;
    }
  }
}
