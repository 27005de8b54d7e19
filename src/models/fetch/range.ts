import type { Content } from "../../api/partial-record.ts";
import type { Address, Network } from "./address.ts";
import type { PartialFile } from "./partial-file.ts";
import type { DownloadProgress } from "./progress.ts";
import type { RangeWriter } from "./range-writer.ts";
import type { RateLimit } from "./rate-limit.ts";
import { totalOf, unwilling, validatorOf } from "./response-facts.ts";
import type { Route } from "./route.ts";
import { transfer, type Flow, type TransferHead } from "./transfer.ts";

/** The content on the server is not the content with which the file was begun. */
export class ContentChanged extends Error {
  override readonly name = "ContentChanged";
}

/** The server ignores the range, and sends the whole file. */
export class RangeIgnored extends Error {
  override readonly name = "RangeIgnored";
}

interface RangeOptions {
  readonly network: Network;
  readonly rate: RateLimit;
  readonly progress: DownloadProgress;
  readonly signal: AbortSignal;
}

interface Range {
  readonly address: Address;
  readonly route: Route;
  readonly writer: RangeWriter;
  readonly partial: PartialFile;
  /** False: the request is for the whole file. */
  readonly usesRanges: boolean;
  /** The end of the range, which begins at the writer's position. */
  readonly to: number;
}

/** Statuses of a signed address that has expired: the source is resolved again. */
const isExpired = new Set([301, 302, 303, 307, 308, 401, 403, 404, 410]);

/**
 * Reads a range over one connection into the writer. Resolves at the end of what the server sends. Rejects with
 * TransferError, FetchError, ContentChanged, RangeIgnored, or the error of the disk.
 */
export async function readSpan(options: RangeOptions, range: Range): Promise<void> {
  const { network, signal } = options;
  const { address, writer, partial, usesRanges, to } = range;
  const other = differenceOf(address, partial.content);
  if (other !== undefined) throw new ContentChanged(other);
  const { url, lookup } = address;
  const rangeHeader = usesRanges ? { range: `bytes=${writer.position}-${to - 1}` } : {};
  const headers = { ...address.headers, ...rangeHeader };
  const pauses = new Pauses();
  let failure: Error | undefined;
  try {
    await transfer(
      { ...network, method: "GET", url, headers, lookup, signal },
      {
        onHead: (head) => {
          failure = refusalOf(head, range);
          return failure === undefined;
        },
        room: () => writer.room(),
        onData: (chunk, flow) => received(chunk, flow, options, range, pauses),
      },
    );
  } finally {
    pauses.end();
  }
  if (failure !== undefined) throw failure;
}

function received(chunk: Buffer, flow: Flow, { rate, progress }: RangeOptions, range: Range, pauses: Pauses): boolean {
  const { writer, route } = range;
  progress.receivedBytes += chunk.length;
  const mayPush = writer.push(chunk, () => pauses.diskIsReady(flow));
  // Without ranges the same bytes are received again, which is no progress.
  if (range.usesRanges) route.heard(chunk.length);
  if (!mayPush) pauses.waitForDisk();
  pauses.wait(rate.taken(chunk.length), flow);
  return !pauses.isPaused;
}

/** The error of an answer that does not match the request; undefined if it matches. */
function refusalOf(head: TransferHead, { address, route, writer, partial, usesRanges }: Range): Error | undefined {
  const { status, headers } = head;
  const { host } = address.url;
  const { sizeBytes } = partial.content;
  if (status === 206 && usesRanges) {
    const from = /^bytes (\d{1,15})-/.exec(headers.get("content-range") ?? "")?.[1];
    if (Number(from) !== writer.position) return new RangeIgnored(`${host} has sent another range than was asked for`);
    const total = totalOf(headers);
    if (total !== undefined && total !== sizeBytes) {
      return new ContentChanged(`${host} says that it has ${total} bytes, and said ${sizeBytes} before`);
    }
    // If the hub gives a checksum, the ETag of its storage servers is not needed.
    const now = validatorOf(headers);
    if (now === undefined || address.validator === undefined || now === address.validator) return undefined;
    return new ContentChanged(`${host} says that the file has changed`);
  }
  if (status === 200 && !usesRanges) {
    const length = headers.get("content-length");
    const [before, now] = [address.validator, validatorOf(headers)];
    // The time of the last change may be that of the answer where a program makes the file.
    if (isEntityTag(before) && isEntityTag(now) && before !== now)
      return new ContentChanged(`${host} says that the file has changed`);
    if (length === undefined || Number(length) === sizeBytes) return undefined;
    return new ContentChanged(`${host} says that it has ${length} bytes, and said ${sizeBytes} before`);
  }
  if (status === 200) return new RangeIgnored(`${host} sends the whole file where a part was asked for`);
  if (status === 416) return new ContentChanged(`${host} has no such part of the file`);
  if (isExpired.has(status)) route.expire();
  return unwilling(address.url, head);
}

function isEntityTag(validator: string | undefined): validator is string {
  return validator?.startsWith('"') === true;
}

/** The difference between the content at an address and the content that was begun; undefined if there is none. */
function differenceOf(address: Address, content: Content): string | undefined {
  const { sizeBytes, sha256, validator, url } = address;
  const isOther =
    (sizeBytes !== undefined && sizeBytes !== content.sizeBytes) ||
    (sha256 !== undefined && sha256 !== content.sha256) ||
    (sha256 === undefined && validator !== content.validator);
  return isOther ? `${url.host} has another file there now` : undefined;
}

/** The reasons why a connection is paused: the disk, or the bandwidth limit. */
class Pauses {
  /** One read may hold many chunks, each of which finds the disk busy: the disk reports once that it is ready. */
  #isDiskBusy = false;
  #timer: NodeJS.Timeout | undefined;

  get isPaused(): boolean {
    return this.#isDiskBusy || this.#timer !== undefined;
  }

  waitForDisk(): void {
    this.#isDiskBusy = true;
  }

  diskIsReady(flow: Flow): void {
    this.#isDiskBusy = false;
    this.#over(flow);
  }

  wait(ms: number, flow: Flow): void {
    if (ms < 1 || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#over(flow);
    }, ms);
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #over(flow: Flow): void {
    if (!this.isPaused) flow.resume();
  }
}
