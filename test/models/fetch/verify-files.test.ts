import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { pathToFileURL } from "node:url";
import { BlobStore } from "../../../src/models/fetch/blob-store.ts";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import { HashThread } from "../../../src/models/fetch/hash-thread.ts";
import { newProgress } from "../../../src/models/fetch/progress.ts";
import { verifyFiles } from "../../../src/models/fetch/verify-files.ts";
import { sha256Of } from "../../doubles/file-server.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { tempDir } from "../../support/temp-dir.ts";

it("compares a file of a manifest with the manifest's sha256", async () => {
  await using directory = await tempDir();
  const store = await BlobStore.open(directory.path, "this boot");
  await using hashThread = new HashThread();
  const path = join(directory.path, "a b.gguf");
  const body = Buffer.from("GGUF and more");
  await writeFile(path, body);
  const verify = async (source: string, sha256?: string): Promise<number> => {
    const progress = newProgress();
    const files = [{ source, ...(sha256 === undefined ? {} : { sha256 }) }];
    await verifyFiles({ store, hashThread }, { ref: "a", files }, progress, new AbortController().signal);
    assert.equal(progress.bytesTotal, progress.bytesDone);
    return progress.bytesDone;
  };
  const source = pathToFileURL(path).href;
  assert.equal(await verify(source, sha256Of(body)), body.length);
  const other = "0".repeat(64);
  const wrong = await rejectionOf(verify(source, other), FetchError);
  assert.deepEqual(
    [wrong.reason, wrong.message],
    [
      "ChecksumMismatch",
      `${path} of a has the SHA-256 ${sha256Of(body)}, and its manifest says ${other}: put the right file there, or correct the manifest`,
    ],
  );
  const unknown = await rejectionOf(verify(source), FetchError);
  assert.equal(unknown.message, "no checksum of a file of a is known");
  await mkdir(join(directory.path, "d.gguf"));
  const none = await rejectionOf(verify(pathToFileURL(join(directory.path, "d.gguf")).href, other), FetchError);
  assert.equal(none.message, `${join(directory.path, "d.gguf")} is no file`);
  await rejectionOf(verify("file:///nowhere/a.gguf", other), Error);
});

it("says what to do where a fetched file is gone", async () => {
  await using directory = await tempDir();
  const store = await BlobStore.open(directory.path, "this boot");
  await using hashThread = new HashThread();
  const body = Buffer.from("GGUF and more");
  const [path, sha256] = [join(directory.path, "a.gguf"), sha256Of(body)];
  await writeFile(path, body);
  await store.addBlob(path, sha256);
  const file = { source: "https://example.test/a.gguf", name: "a.gguf", sha256, sizeBytes: body.length };
  await store.install({ schema: 1, ref: "a", files: [file], pulledAt: new Date().toISOString() });
  await rm(store.blobPath(sha256));
  const { signal } = new AbortController();
  const gone = await rejectionOf(
    verifyFiles({ store, hashThread }, { ref: "a", files: [] }, newProgress(), signal),
    FetchError,
  );
  assert.equal(gone.reason, "SourceNotFound");
  assert.match(gone.message, /, a file of a, cannot be read: remove the model with its files, and pull it again$/);
});
