import { rm } from "node:fs/promises";
import type { Content } from "../../api/partial-record.ts";
import { findAddress, type Address, type Network } from "./address.ts";
import { FetchError } from "./fetch-error.ts";
import type { HashThread } from "./hash-thread.ts";
import { PartialFile, type Span } from "./partial-file.ts";
import { ContentChanged, RangeIgnored, readSpan } from "./range.ts";
import { RangeWriter } from "./range-writer.ts";
import type { RateLimit } from "./rate-limit.ts";
import type { DownloadProgress } from "./progress.ts";
import { Retries, Route } from "./route.ts";
import type { Source } from "./source.ts";
import { TransferError } from "./transfer.ts";

export interface DownloadOptions {
  /** The source as a person wrote it. It names the file in messages and in the record. */
  readonly text: string;
  readonly source: Extract<Source, { scheme: "hf" | "https" }>;
  /** The directory of this file alone. An early end keeps the received bytes there. */
  readonly directory: string;
  /** The facts from the manifest. The hub's facts count where the manifest has none. */
  readonly expected: { readonly sha256?: string; readonly sizeBytes?: number };
  readonly network: Network;
  readonly hashThread: HashThread;
  readonly rate: RateLimit;
  readonly reserveBytes: number;
  /** The most ranges that are fetched at once. */
  readonly connections: number;
  /** The address of the file from a recent resolution; absent: the source is resolved. */
  readonly address?: Address;
  readonly progress: DownloadProgress;
  readonly signal: AbortSignal;
}

export interface Downloaded {
  /** The path of the file in the directory; the caller moves the file to its place. */
  readonly path: string;
  readonly sha256: string;
  /** The facts of the fetched file, which may have changed since the caller looked its address up. */
  readonly content: Content;
  readonly commit: string | undefined;
}

const mostRestarts = 5;

/**
 * Fetches one file by plain ranges, several at once, and checks it. An earlier attempt is continued if the server
 * still has the same content. Rejects with FetchError, or as `signal` was aborted; a file with a wrong checksum is
 * deleted. Where a part of it was from an earlier attempt, another attempt may succeed.
 */
export async function download(options: DownloadOptions): Promise<Downloaded> {
  const { progress, directory, signal } = options;
  let usesRanges = true;
  for (let restarts = 0; ; restarts++) {
    const address = (restarts === 0 ? options.address : undefined) ?? (await addressOf(options));
    const content = contentOf(options, address);
    progress.bytesTotal = content.sizeBytes;
    // Another content, or a server without ranges: nothing can be continued.
    if (restarts > 0) await rm(directory, { recursive: true, force: true });
    try {
      const { reserveBytes, hashThread } = options;
      const onBytes = (bytesDone: number): void => void (progress.bytesDone = bytesDone);
      const opened = { directory, content, usesRanges, hashThread, reserveBytes, onBytes };
      await using partial = await PartialFile.open(opened);
      progress.bytesDone = partial.bytesDone;
      await partial.checkRoom(partial.bytesLeft);
      await fetchSpans(options, partial, address, usesRanges);
      const sha256 = await partial.finish(signal);
      if (content.sha256 === undefined || sha256 === content.sha256) {
        return { path: partial.dataPath, sha256, content, commit: address.commit };
      }
      await rm(directory, { recursive: true, force: true });
      const found = `${options.text} has the SHA-256 ${sha256}, not ${content.sha256}: what came was deleted`;
      if (!partial.isResumed) throw new FetchError("ChecksumMismatch", found);
      // The bytes of an earlier attempt may have been damaged since.
      throw new FetchError("FetchFailed", `${found}, and the file is fetched again from the beginning`);
    } catch (error) {
      const isChanged = error instanceof ContentChanged;
      if (!isChanged && !(error instanceof RangeIgnored)) throw error;
      if (restarts >= mostRestarts) {
        throw new FetchError("FetchFailed", `${options.text} changes while it is fetched: ${error.message}`);
      }
      usesRanges &&= isChanged;
    }
  }
}

/** Resolves the address of the file, with a few retries: a name server may be slow too. */
export async function addressOf({
  source,
  network,
  progress,
  signal,
}: Pick<DownloadOptions, "source" | "network" | "progress" | "signal">): Promise<Address> {
  const route = new Route(undefined, async () => await findAddress(source, network, signal));
  const retries = new Retries(route, network.retryMs, progress);
  for (;;) {
    try {
      const address = await route.current(signal);
      progress.trouble = undefined;
      return address;
    } catch (error) {
      await retries.failed(error, signal);
    }
  }
}

/** The content to fetch. Throws FetchError if the server's facts differ from the manifest. */
export function contentOf({ text, expected }: Pick<DownloadOptions, "text" | "expected">, address: Address): Content {
  const sizeBytes = address.sizeBytes ?? expected.sizeBytes;
  if (sizeBytes === undefined) {
    throw new FetchError(
      "SourceRefused",
      `${address.url.host} tells no size of ${text}: give its sizeBytes in the manifest`,
    );
  }
  if (expected.sizeBytes !== undefined && expected.sizeBytes !== sizeBytes) {
    const message = `${text} has ${sizeBytes} bytes at ${address.url.host}, not the ${expected.sizeBytes} that are declared`;
    throw new FetchError("SizeMismatch", message);
  }
  const sha256 = expected.sha256 ?? address.sha256;
  if (address.sha256 !== undefined && sha256 !== address.sha256) {
    throw new FetchError(
      "ChecksumMismatch",
      `the hub says that ${text} has the SHA-256 ${address.sha256}, not ${sha256 ?? ""}`,
    );
  }
  return { source: text, sizeBytes, validator: address.validator, sha256 };
}

async function fetchSpans(
  options: DownloadOptions,
  partial: PartialFile,
  address: Address,
  usesRanges: boolean,
): Promise<void> {
  const { source, network } = options;
  const route = new Route(address, async (signal) => await findAddress(source, network, signal));
  const failing = new AbortController();
  const signal = AbortSignal.any([options.signal, failing.signal]);
  const fetchClaims = async (): Promise<void> => {
    const writer = new RangeWriter(partial);
    for (;;) {
      const span = partial.claim();
      if (span === undefined) return;
      try {
        await fetchSpan({ ...options, signal }, { partial, route, writer, usesRanges }, span);
      } catch (error) {
        // The other connections end too, and the first error is reported.
        failing.abort(error);
        return;
      } finally {
        await writer.settled().catch(() => undefined);
        partial.giveBack(span);
      }
    }
  };
  await Promise.all(Array.from({ length: usesRanges ? options.connections : 1 }, fetchClaims));
  options.signal.throwIfAborted();
  failing.signal.throwIfAborted();
}

interface SpanContext {
  readonly partial: PartialFile;
  readonly route: Route;
  readonly writer: RangeWriter;
  readonly usesRanges: boolean;
}

/** Fetches a range until it is complete. After a broken connection another one continues at the same byte. */
async function fetchSpan(options: DownloadOptions, context: SpanContext, span: Span): Promise<void> {
  const { signal } = options;
  const { partial, route, writer, usesRanges } = context;
  const retries = new Retries(route, options.network.retryMs, options.progress);
  await partial.checkRoom(span.to - span.from);
  writer.begin(span);
  for (;;) {
    // A buffer must not be filled again while it is being written.
    await writer.settled();
    if (writer.isWhole) return;
    // Without ranges the download cannot be continued: the whole file is fetched again, which may be another one now.
    if (!usesRanges) {
      partial.restart();
      writer.begin(span);
    }
    const before = writer.position;
    try {
      const address = await route.current(signal);
      await readSpan(options, { address, route, writer, partial, usesRanges, to: span.to });
      if (!writer.isWhole) throw new TransferError("broken", `${address.url.host} has sent less than it said`);
    } catch (error) {
      if (error instanceof TransferError) route.expire();
      if (error instanceof TransferError && error.phase === "stalled") options.progress.stalls += 1;
      if (usesRanges && writer.position > before) retries.succeeded();
      await retries.failed(error, signal);
    }
  }
}
