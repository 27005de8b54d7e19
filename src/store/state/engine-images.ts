import { join } from "node:path";
import { readFile } from "node:fs/promises";
import type { z } from "zod";
import { parse, parseDocument, stringify } from "yaml";
import { engineImagesSchema, engineLockSchema, type EngineImages, type EngineLock } from "../../api/engine-images.ts";
import { problemsOf } from "../../api/problems.ts";
import { setAside } from "../../lib/aside.ts";
import { rewriteFile, writeFileAtomic } from "../../lib/atomic-file.ts";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { Serial } from "../../lib/serial.ts";

/** The file cannot be used; the message names it, `next` is the remedy. */
export class BadImagesFile extends Error {
  override readonly name = "BadImagesFile";
  readonly next: string;

  constructor(message: string, next: string, cause: unknown) {
    super(message, { cause });
    this.next = next;
  }
}

const mendImages = "mend it, or put back the one that came with Berth";
const mendLock = "mend it, or remove it: the next pull of an image finds its digest again";

/** Reads `manifests/engines.yaml`. Throws BadImagesFile. */
export async function readEngineImages(path: string): Promise<EngineImages> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw new BadImagesFile(`${path} cannot be read`, mendImages, error);
  });
  return checked(path, engineImagesSchema, text, mendImages).engines;
}

/**
 * Writes the lock's digests beside the images of `manifests/engines.yaml` that have none; comments stay. Resolves with
 * the pinned images. Throws BadImagesFile.
 */
export async function pinEngineImages(path: string, lock: EngineLock): Promise<readonly string[]> {
  const images = await readEngineImages(path);
  const document = parseDocument(await readFile(path, "utf8"));
  const pinned: string[] = [];
  for (const [kind, pins] of Object.entries(images)) {
    for (const [backend, pin] of Object.entries(pins)) {
      const digest = pin.digest === undefined ? lock[pin.image] : undefined;
      if (digest === undefined) continue;
      document.setIn(["engines", kind, backend, "digest"], digest);
      pinned.push(pin.image);
    }
  }
  if (pinned.length === 0) return pinned;
  try {
    await rewriteFile(path, document.toString({ lineWidth: 0 }));
  } catch (error) {
    throw new BadImagesFile(`${path} cannot be written`, "run this as the user that owns it", error);
  }
  return pinned;
}

/** Digests of images that were named without one, as this installation first pulled them. */
export class EngineLockFile {
  readonly #path: string;
  #lock: EngineLock;
  /** The content of the file. */
  #written: EngineLock;
  readonly #writes = new Serial();

  private constructor(path: string, lock: EngineLock) {
    this.#path = path;
    this.#lock = lock;
    this.#written = lock;
  }

  /** Throws BadImagesFile: an ignored lock would change the running images. */
  static async open(path: string): Promise<EngineLockFile> {
    let text: string;
    try {
      text = await readFile(path, "utf8");
    } catch (error) {
      if (errorCode(error) === "ENOENT") return new EngineLockFile(path, {});
      throw new BadImagesFile(`${path} cannot be read`, mendLock, error);
    }
    return new EngineLockFile(path, checked(path, engineLockSchema, text, mendLock).images);
  }

  /**
   * For the operator, whose engines may need no image at all: an invalid lock is moved away and reported, and the next
   * pull of an image finds its digest again.
   */
  static async openAnyway(stateDir: string, report: (line: string) => void): Promise<EngineLockFile> {
    const path = join(stateDir, "engines.lock.yaml");
    try {
      return await EngineLockFile.open(path);
    } catch (error) {
      if (!(error instanceof BadImagesFile)) throw error;
      await setAside(stateDir, path, "engines.lock.yaml");
      report(`${error.message}: it was moved to ${join(stateDir, "aside")}; the next pull of each image pins it again`);
      return await EngineLockFile.open(path);
    }
  }

  get lock(): EngineLock {
    return this.#lock;
  }

  /** Known from this moment on; rejects when it cannot be written, and stays known. */
  async record(image: string, digest: string): Promise<void> {
    if (this.#lock[image] !== digest) this.#lock = { ...this.#lock, [image]: digest };
    await this.#writes.run(async () => {
      const lock = this.#lock;
      if (this.#written === lock) return;
      const head = "# The digest of each image without one, at its first pull. Delete a line to resolve it again.\n";
      const text = head + stringify({ images: lock });
      // The lock file may be a link into a person's repository.
      await rewriteFile(this.#path, text).catch(async (error: unknown) => {
        if (errorCode(error) !== "ENOENT") throw error;
        await writeFileAtomic(this.#path, text, { fsync: true });
      });
      this.#written = lock;
    });
  }
}

function checked<T>(path: string, schema: z.ZodType<T>, text: string, next: string): T {
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    const [line = ""] = errorMessage(error).split("\n");
    throw new BadImagesFile(`${path}: ${line}`, next, error);
  }
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const [problem] = problemsOf(read.error);
  throw new BadImagesFile(`${path}: ${problem?.path.join(".") ?? ""}: ${problem?.message ?? ""}`, next, read.error);
}
