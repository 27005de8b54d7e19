import { open, rm, stat } from "node:fs/promises";
import type { WantedFile } from "../../api/model.ts";
import type { Content } from "../../api/partial-record.ts";
import type { PulledFile, PulledModel } from "../../api/pulled-model.ts";
import { Serial } from "../../lib/serial.ts";
import { readGguf } from "../gguf.ts";
import { GgufError } from "../gguf-reader.ts";
import type { HeaderFiles } from "../header-files.ts";
import type { Address, Network } from "./address.ts";
import type { BlobStore } from "./blob-store.ts";
import { addressOf, contentOf, download, type DownloadOptions } from "./download.ts";
import { FetchError } from "./fetch-error.ts";
import type { HashThread } from "./hash-thread.ts";
import { isSameContent, readPartial, writePartial } from "./partial-record.ts";
import { within, type DownloadProgress } from "./progress.ts";
import type { RateLimit } from "./rate-limit.ts";
import { Room, type RoomOptions } from "./room.ts";
import type { WantedModel } from "./wanted-model.ts";
import { parseSource, safeFileName, type Source } from "./source.ts";

export interface ModelFetchOptions {
  readonly store: BlobStore;
  readonly hashThread: HashThread;
  readonly network: Omit<Network, "isOpen">;
  readonly rate: RateLimit;
  readonly reserveBytes: number;
  /** Less than the disk's own figure in tests. */
  readonly freeBytes?: NonNullable<RoomOptions["freeBytes"]>;
  readonly connections: number;
  readonly headers?: HeaderFiles;
}

/** Whether a pull of another model needs that source: both have one partial file. */
export type IsNeeded = (source: string) => boolean;

type WebSource = Extract<Source, { scheme: "hf" | "https" }>;

interface Part {
  readonly wanted: WantedFile;
  readonly source: WebSource;
  readonly name: string;
  /** The facts from the manifest. */
  readonly expected: DownloadOptions["expected"];
  readonly address: Address;
  readonly content: Content;
}

/** Fetches the files of models into the store, one file at a time per source. */
export class ModelFetch {
  readonly #options: ModelFetchOptions;
  readonly #room: Room;
  /** The sources that are being fetched, each with the number of models that need it. */
  readonly #sources = new Map<string, { readonly turn: Serial; users: number }>();

  constructor(options: ModelFetchOptions) {
    this.#options = options;
    this.#room = new Room(options);
  }

  /**
   * Fetches the missing files, and installs the model under its ref. An early end keeps the received bytes, and so does
   * a whole model those of a source that `isNeeded` by another one. Rejects with FetchError, or as `signal` was aborted.
   */
  async fetch(
    model: WantedModel,
    progress: DownloadProgress,
    signal: AbortSignal,
    isNeeded: IsNeeded = () => false,
  ): Promise<PulledModel> {
    const network = { ...this.#options.network, isOpen: model.isOpen };
    const parts = await this.#locate(model, network, progress, signal);
    const total = totalOf(parts);
    progress.bytesTotal = total;
    // A model of which one file does not fit is not begun.
    const contents = parts.map(({ content }) => content);
    await this.#options.store.prepare();
    using _room = await this.#room.reserve({ ref: model.ref, contents, totalBytes: total, progress });
    const files: PulledFile[] = [];
    let before = 0;
    // Another ref with the same contents may be removed while the rest is fetched.
    using claims = new DisposableStack();
    for (const part of parts) {
      const file = await this.#once(part, network, within(progress, before, total), signal, claims);
      files.push(file);
      if (parts.length > 1 && (file.commit !== part.address.commit || file.sizeBytes !== part.content.sizeBytes)) {
        const message = `${part.wanted.source} has changed while ${model.ref} was fetched: all its files are looked up again`;
        throw new FetchError("FetchFailed", message);
      }
      before += file.sizeBytes;
      progress.bytesDone = before;
    }
    const pulled: PulledModel = { schema: 1, ref: model.ref, files, pulledAt: new Date().toISOString() };
    await this.#options.store.install(pulled);
    await this.discard(model, isNeeded);
    return pulled;
  }

  /** Deletes the received bytes of a model that is no longer wanted, but for sources that another model needs. */
  async discard(model: WantedModel, isNeeded: IsNeeded): Promise<void> {
    const { store } = this.#options;
    for (const { source } of model.files) {
      if (isNeeded(source)) continue;
      await rm(store.partialDirectory(source), { recursive: true, force: true });
    }
  }

  async #locate(
    model: WantedModel,
    network: Network,
    progress: DownloadProgress,
    signal: AbortSignal,
  ): Promise<readonly Part[]> {
    const parts: Part[] = [];
    const names = new Set<string>();
    // All files of one repository come from one commit.
    const commits = new Map<string, string>();
    for (const wanted of model.files) {
      const source = pinned(webSource(wanted.source), commits);
      const name = wanted.as === undefined ? source.fileName : safeFileName(wanted.as, wanted.source);
      if (names.has(name)) throw new FetchError("SourceRefused", `${model.ref} has two files of the name ${name}`);
      names.add(name);
      const address = await addressOf({ source, network, progress, signal });
      if (source.scheme === "hf" && address.commit !== undefined) commits.set(repositoryOf(source), address.commit);
      const sizeBytes = model.files.length === 1 ? model.sizeBytes : undefined;
      const expected = {
        ...(wanted.sha256 === undefined ? {} : { sha256: wanted.sha256 }),
        ...(sizeBytes === undefined ? {} : { sizeBytes }),
      };
      const content = contentOf({ text: wanted.source, expected }, address);
      parts.push({ wanted, source, name, expected, address, content });
    }
    const total = totalOf(parts);
    if (model.sizeBytes !== undefined && model.sizeBytes !== total) {
      const message = `the files of ${model.ref} have ${total} bytes, not the ${model.sizeBytes} that are declared`;
      throw new FetchError("SizeMismatch", message);
    }
    return parts;
  }

  /** Two models that share a source wait for each other, and the second uses the file that the first has fetched. */
  async #once(
    part: Part,
    network: Network,
    progress: DownloadProgress,
    signal: AbortSignal,
    claims: DisposableStack,
  ): Promise<PulledFile> {
    const { source } = part.wanted;
    const known = this.#sources.get(source) ?? { turn: new Serial(), users: 0 };
    this.#sources.set(source, known);
    known.users += 1;
    try {
      return await known.turn.run(async () => {
        signal.throwIfAborted();
        return await this.#file(part, network, progress, signal, claims);
      });
    } finally {
      known.users -= 1;
      if (known.users === 0) this.#sources.delete(source);
    }
  }

  async #file(
    part: Part,
    network: Network,
    progress: DownloadProgress,
    signal: AbortSignal,
    claims: DisposableStack,
  ): Promise<PulledFile> {
    const { store, hashThread, rate, reserveBytes, connections } = this.#options;
    const { wanted, source, name, expected, address, content } = part;
    const { sizeBytes } = content;
    const done = (sha256: string, bytes = sizeBytes, commit = address.commit): PulledFile => ({
      source: wanted.source,
      name,
      sha256,
      sizeBytes: bytes,
      ...(commit === undefined ? {} : { commit }),
    });
    const isClaimed = async (sha256: string): Promise<boolean> => {
      claims.use(store.claim(sha256));
      return await store.hasBlob({ sha256, sizeBytes });
    };
    const { sha256 } = content;
    if (sha256 !== undefined && (await isClaimed(sha256))) return done(sha256);
    const directory = store.partialDirectory(wanted.source);
    const known = await readPartial(directory);
    if (known?.digest !== undefined && isSameContent(known.content, content)) {
      if (await isClaimed(known.digest)) return done(known.digest);
    }
    const found = await download({
      text: wanted.source,
      source,
      directory,
      expected,
      network,
      hashThread,
      rate,
      reserveBytes,
      connections,
      progress,
      signal,
      address,
    });
    const fault = name.toLowerCase().endsWith(".gguf") ? await faultOf(found.path, this.#options.headers) : undefined;
    if (fault !== undefined) {
      await rm(directory, { recursive: true, force: true });
      throw new FetchError(fault.reason, `${wanted.source} ${fault.message}. What came was deleted`);
    }
    claims.use(store.claim(found.sha256));
    await store.addBlob(found.path, found.sha256);
    await writePartial(directory, { content: found.content, marks: [], digest: found.sha256 });
    return done(found.sha256, found.content.sizeBytes, found.commit);
  }
}

/** Finds the fault of a whole file that should be GGUF. A header may be newer than what this version reads. */
async function faultOf(
  path: string,
  headers: HeaderFiles | undefined,
): Promise<Pick<FetchError, "reason" | "message"> | undefined> {
  if (!(await isGguf(path)))
    return { reason: "NotAModel", message: "is no GGUF file, as its name says: it does not begin with GGUF" };
  try {
    await readGguf(path, headers);
  } catch (error) {
    if (!(error instanceof GgufError)) throw error;
    if (error.reason !== "TruncatedModel") return undefined;
    const { size } = await stat(path);
    return { reason: "TruncatedModel", message: `has ${size} bytes on the server, and ${error.message}` };
  }
  return undefined;
}

async function isGguf(path: string): Promise<boolean> {
  await using file = await open(path);
  const { bytesRead, buffer } = await file.read(Buffer.alloc(4), 0, 4, 0);
  return bytesRead === 4 && buffer.toString("latin1") === "GGUF";
}

function totalOf(parts: readonly Part[]): number {
  return parts.reduce((sum, { content }) => sum + content.sizeBytes, 0);
}

/** Throws FetchError for sources with a scheme that is not fetched here. */
function webSource(text: string): WebSource {
  const source = parseSource(text);
  if (source.scheme === "hf" || source.scheme === "https") return source;
  throw new FetchError("SourceRefused", `${text} is not fetched over the network`);
}

function repositoryOf({ owner, repo, revision }: Extract<Source, { scheme: "hf" }>): string {
  return `${owner}/${repo}@${revision}`;
}

function pinned(source: WebSource, commits: ReadonlyMap<string, string>): WebSource {
  if (source.scheme !== "hf") return source;
  return { ...source, revision: commits.get(repositoryOf(source)) ?? source.revision };
}
