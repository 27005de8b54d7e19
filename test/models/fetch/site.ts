import { join } from "node:path";
import { randomBytes } from "node:crypto";
import type { DownloadOptions } from "../../../src/models/fetch/download.ts";
import { newProgress, type DownloadProgress } from "../../../src/models/fetch/progress.ts";
import { FileThread } from "../../../src/models/fetch/file-thread.ts";
import { hubFrom } from "../../../src/models/fetch/hub.ts";
import { RateLimit } from "../../../src/models/fetch/rate-limit.ts";
import { parseSource } from "../../../src/models/fetch/source.ts";
import { startFileServer, type FileServer } from "../../doubles/file-server.ts";
import { tempDir } from "../../support/temp-dir.ts";

export const mebibyte = 1024 * 1024;

/** Random bytes that begin as a GGUF file does. */
export function ggufOf(bytes: number): Buffer {
  return Buffer.concat([Buffer.from("GGUF"), randomBytes(bytes - 4)]);
}

export interface FetchSite extends AsyncDisposable {
  readonly server: FileServer;
  readonly directory: string;
  readonly fileThread: FileThread;
  readonly progress: DownloadProgress;
  /** Fetches `/model.gguf` of the server. */
  options(change?: Partial<DownloadOptions>): DownloadOptions;
}

/** A server of one file, and a directory to fetch it to. */
export async function fetchSite(bytes = 8 * mebibyte + 12_345): Promise<FetchSite & { readonly body: Buffer }> {
  const body = randomBytes(bytes);
  const server = await startFileServer({ "/model.gguf": { body, etag: '"one"' } });
  const directory = await tempDir();
  const fileThread = new FileThread();
  const progress = newProgress();
  return {
    body,
    server,
    fileThread,
    progress,
    directory: directory.path,
    options: (change = {}) => {
      const text = `${server.url}/model.gguf`;
      const source = parseSource(text);
      if (source.scheme !== "https") throw new Error("no web source");
      const hub = hubFrom({ HF_ENDPOINT: server.url });
      return {
        text,
        source,
        directory: join(directory.path, "partial"),
        expected: {},
        network: { hub, isOpen: false, connectMs: 60_000, stallMs: 60_000, retryMs: 20 },
        fileThread,
        rate: new RateLimit(),
        reserveBytes: 0,
        connections: 4,
        progress,
        signal: new AbortController().signal,
        ...change,
      };
    },
    async [Symbol.asyncDispose]() {
      await fileThread[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}
