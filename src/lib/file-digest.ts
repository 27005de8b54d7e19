import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";

/** The digest of a file of any size, which is read in pieces. Rejects with the system's error, or when aborted. */
export async function fileDigest(
  path: string,
  algorithm: "sha256" | "blake2b512",
  signal?: AbortSignal,
): Promise<Buffer> {
  const hash = createHash(algorithm);
  await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash, { signal });
  return hash.digest();
}
