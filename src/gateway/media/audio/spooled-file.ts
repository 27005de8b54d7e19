import { randomUUID } from "node:crypto";
import { mkdir, open, rm, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { isShortage } from "../../../lib/error-code.ts";
import { diskFailure } from "../../http/disk-failure.ts";
import { shortageFailure } from "../../relay/engine-failure.ts";
import type { BufferBudget } from "../../slots/budget.ts";

const readBytes = 65_536;

/** A file without a name, so that no crash leaves it behind. Its bytes are counted until it is closed. */
export class SpooledFile implements AsyncDisposable {
  readonly #file: FileHandle;
  readonly #spooled: BufferBudget;
  #sizeBytes = 0;

  private constructor(file: FileHandle, spooled: BufferBudget) {
    this.#file = file;
    this.#spooled = spooled;
  }

  /** Opens a new file, and makes its directory where that is missing. Throws ApiError where the disk fails, or no file can be opened. */
  static async open(dir: string, spooled: BufferBudget): Promise<SpooledFile> {
    return await onDisk(async () => {
      await mkdir(dir, { recursive: true });
      const path = join(dir, `.upload.${randomUUID()}.tmp`);
      const file = await open(path, "wx+", 0o600);
      await rm(path, { force: true });
      return new SpooledFile(file, spooled);
    });
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Throws ApiError where the disk fails, and `system.overloaded` where uploads have used up their part of it. */
  async append(bytes: Buffer): Promise<void> {
    this.#spooled.take(bytes.length);
    this.#sizeBytes += bytes.length;
    await onDisk(() => this.#file.appendFile(bytes));
  }

  async *read(): AsyncGenerator<Buffer> {
    for (let at = 0; at < this.#sizeBytes;) {
      const { buffer, bytesRead } = await this.#file.read(Buffer.allocUnsafeSlow(readBytes), 0, readBytes, at);
      if (bytesRead === 0) throw new Error("the file of an upload is shorter than the upload");
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  }

  /** Idempotent. A read in progress ends first, and no other may follow. */
  async [Symbol.asyncDispose](): Promise<void> {
    // Nobody needs the file any more, whatever its disk says.
    await this.#file.close().catch(() => undefined);
    this.#spooled.give(this.#sizeBytes);
    this.#sizeBytes = 0;
  }
}

async function onDisk<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw isShortage(error) ? shortageFailure() : diskFailure(error, "hold the upload");
  }
}
