import { open } from "node:fs/promises";

/** Bytes that can be read at any offset: of a local file, or of a remote file that is read by ranges. */
export interface ByteSource {
  readonly sizeBytes: number;
  /** The size of a read where few bytes are needed: many reads of a file are cheap, many requests are not. */
  readonly windowBytes: number;
  /** Exactly `length` bytes, or fewer where the source ends before. Rejects when it cannot be read. */
  readRange(start: number, length: number): Promise<Buffer>;
}

export interface OpenSource extends ByteSource, AsyncDisposable {
  /** Differs when the file was replaced or written to. */
  readonly stamp: string;
}

/** A file of this machine. Rejects as `open` does. */
export async function openFileSource(path: string): Promise<OpenSource> {
  const file = await open(path, "r");
  try {
    const { ino, size, mtimeMs } = await file.stat();
    return {
      sizeBytes: size,
      stamp: `${ino}:${size}:${mtimeMs}`,
      windowBytes: 256 * 1024,
      async readRange(start, length) {
        const bytes = Buffer.allocUnsafe(length);
        const { bytesRead } = await file.read(bytes, 0, length, start);
        return bytes.subarray(0, bytesRead);
      },
      [Symbol.asyncDispose]: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}
