import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Network } from "../../../src/models/fetch/address.ts";
import { BlobStore } from "../../../src/models/fetch/blob-store.ts";
import type { DownloadOptions } from "../../../src/models/fetch/download.ts";
import { HashThread } from "../../../src/models/fetch/hash-thread.ts";
import { hubFrom } from "../../../src/models/fetch/hub.ts";
import { ModelFetch, type IsNeeded, type ModelFetchOptions } from "../../../src/models/fetch/model-fetch.ts";
import { newProgress } from "../../../src/models/fetch/progress.ts";
import { RateLimit } from "../../../src/models/fetch/rate-limit.ts";
import { parseSource, type Source } from "../../../src/models/fetch/source.ts";
import type { WantedModel } from "../../../src/models/fetch/wanted-model.ts";
import { startFileServer, type FileServer, type ServedFile } from "../../doubles/file-server.ts";
import { tempDir } from "../../support/temp-dir.ts";

export const mebibyte = 1024 * 1024;

/** Random bytes that begin as a GGUF file does. */
export function ggufOf(bytes: number): Buffer {
  return Buffer.concat([Buffer.from("GGUF"), randomBytes(bytes - 4)]);
}

/** The network with a hub, and time limits for a busy machine. */
export function networkTo(hub = "https://huggingface.co", env: NodeJS.ProcessEnv = {}): Network {
  const limits = { connectMs: 60_000, stallMs: 60_000, retryMs: 20 };
  return { hub: hubFrom({ HF_ENDPOINT: hub, ...env }), isOpen: false, ...limits };
}

export function webSource<Scheme extends "hf" | "https" = "https">(
  text: string,
  ...schemes: Scheme[]
): Extract<Source, { scheme: Scheme }> {
  const source = parseSource(text);
  const isWanted = (each: Source): each is Extract<Source, { scheme: Scheme }> =>
    (schemes.length === 0 ? ["https"] : schemes).some((scheme) => scheme === each.scheme);
  if (!isWanted(source)) throw new Error("no web source");
  return source;
}

/** A server of one file of random bytes, and a directory to fetch it to. */
export async function fetchSite(bytes = 4 * mebibyte + 12_345) {
  const body = randomBytes(bytes);
  const server = await startFileServer({ "/model.gguf": { body, etag: '"one"' } });
  const directory = await tempDir();
  const hashThread = new HashThread();
  const progress = newProgress();
  return {
    body,
    server,
    hashThread,
    progress,
    directory: directory.path,
    /** Fetches `/model.gguf` of the server. */
    options: (change: Partial<DownloadOptions> = {}): DownloadOptions => {
      const text = `${server.url}/model.gguf`;
      return {
        text,
        source: webSource(text),
        directory: join(directory.path, "partial"),
        expected: {},
        network: networkTo(server.url),
        hashThread,
        rate: new RateLimit(),
        reserveBytes: 0,
        connections: 4,
        progress,
        signal: new AbortController().signal,
        ...change,
      };
    },
    async [Symbol.asyncDispose]() {
      await hashThread[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

export function modelFetch(
  store: BlobStore,
  hashThread: HashThread,
  change: Partial<ModelFetchOptions> = {},
): ModelFetch {
  const options = { network: networkTo(), rate: new RateLimit(), reserveBytes: 0, connections: 2 };
  return new ModelFetch({ store, hashThread, ...options, ...change });
}

/** A server of these files, which is a hub, too, and a store. */
export async function storeSite(
  files: Readonly<Record<string, ServedFile>> = {},
  change: Partial<ModelFetchOptions> = {},
) {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startFileServer(files));
  const directory = stack.use(await tempDir());
  const hashThread = stack.use(new HashThread());
  const store = await BlobStore.open(directory.path, "this boot");
  const fetch = modelFetch(store, hashThread, { network: networkTo(server.url), ...change });
  const owned = stack.move();
  return {
    server,
    store,
    hashThread,
    fetch: async (
      model: Partial<WantedModel> & { readonly ref: string; readonly sources?: readonly string[] },
      progress = newProgress(),
      isNeeded?: IsNeeded,
    ) => {
      const { sources = [], files = sources.map((source) => ({ source })), ...rest } = model;
      const wanted = { isOpen: false, ...rest, files };
      return await fetch.fetch(wanted, progress, new AbortController().signal, isNeeded);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The range of each GET of a path, oldest first. */
export function rangesOf({ asked }: FileServer, path = "/model.gguf"): readonly (string | undefined)[] {
  return asked.filter((each) => each.method === "GET" && each.path === path).map(({ range }) => range);
}

/** The header of an answer with a part of the body. */
export function contentRange(from: number, to: number, body: Buffer): string {
  return `bytes ${from}-${to - 1}/${body.length}`;
}
