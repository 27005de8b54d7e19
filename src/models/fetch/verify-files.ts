import type { Stats } from "node:fs";
import { stat } from "node:fs/promises";
import type { BlobStore } from "./blob-store.ts";
import { FetchError } from "./fetch-error.ts";
import type { HashThread } from "./hash-thread.ts";
import type { DownloadProgress } from "./progress.ts";
import { parseSource } from "./source.ts";
import type { WantedModel } from "./wanted-model.ts";

/** A model, with its `file://` sources whose SHA-256 a manifest names. */
export type CheckedModel = Pick<WantedModel, "ref" | "files">;

interface CheckedFile {
  readonly name: string;
  readonly path: string;
  readonly sha256: string;
  readonly sizeBytes: number;
  /** Where the checksum is from, and what to do where the file has another. */
  readonly known: string;
  readonly remedy: string;
}

/**
 * Reads every file of a model whose checksum is known, and compares its SHA-256: with what it had when it was fetched, or
 * with what the manifest says. Rejects with FetchError for the first that differs or is not there, or as `signal` was
 * aborted.
 */
export async function verifyFiles(
  { store, hashThread }: { readonly store: BlobStore; readonly hashThread: HashThread },
  { ref, files }: CheckedModel,
  progress: DownloadProgress,
  signal: AbortSignal,
): Promise<void> {
  const checked = [...(await fetchedFiles(store, ref)), ...(await declaredFiles({ ref, files }))];
  if (checked.length === 0) throw new FetchError("SourceNotFound", `no checksum of a file of ${ref} is known`);
  progress.bytesTotal = checked.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  for (const { name, path, sha256, sizeBytes, known, remedy } of checked) {
    await using hash = hashThread.begin(path);
    const before = progress.bytesDone;
    const found = await hash.digest(sizeBytes, signal, (bytes) => {
      progress.bytesDone = before + bytes;
      progress.receivedBytes = progress.bytesDone;
    });
    if (found === sha256) continue;
    throw new FetchError("ChecksumMismatch", `${name} of ${ref} has the SHA-256 ${found}, and ${known}: ${remedy}`);
  }
}

async function fetchedFiles(store: BlobStore, ref: string): Promise<readonly CheckedFile[]> {
  const found: CheckedFile[] = [];
  const remedy = "remove the model with its files, and pull it again";
  for (const { name, sha256, sizeBytes } of store.find(ref)?.files ?? []) {
    const path = store.blobPath(sha256);
    const at = await statusOf(path, ref, remedy);
    if (at.size !== sizeBytes)
      throw new FetchError(
        "ChecksumMismatch",
        `${name} of ${ref} has ${at.size} bytes, and had ${sizeBytes} when it was fetched: ${remedy}`,
      );
    found.push({ name, path, sha256, sizeBytes, known: `had ${sha256} when it was fetched`, remedy });
  }
  return found;
}

async function declaredFiles({ ref, files }: CheckedModel): Promise<readonly CheckedFile[]> {
  const found: CheckedFile[] = [];
  for (const { source: text, sha256 } of files) {
    // A fetched file is named by its path in the store.
    if (sha256 === undefined || !text.startsWith("file://")) continue;
    const source = parseSource(text);
    if (source.scheme !== "file") continue;
    const { path } = source;
    const at = await statusOf(path, ref, "put it there, or correct the manifest");
    // Reading a named pipe would wait for its writer.
    if (!at.isFile()) throw new FetchError("NotAModel", `${path} is no file`);
    const known = `its manifest says ${sha256}`;
    const remedy = "put the right file there, or correct the manifest";
    found.push({ name: path, path, sha256, sizeBytes: at.size, known, remedy });
  }
  return found;
}

async function statusOf(path: string, ref: string, remedy: string): Promise<Stats> {
  return await stat(path).catch((cause: unknown) => {
    throw new FetchError("SourceNotFound", `${path}, a file of ${ref}, cannot be read: ${remedy}`, { cause });
  });
}
