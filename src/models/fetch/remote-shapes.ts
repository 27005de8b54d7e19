import { canonicalJson } from "../../lib/canonical.ts";
import { Serial } from "../../lib/serial.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import { shapeOf, type ModelShape } from "../fit/shape.ts";
import { readGgufHeader, type GgufHeader } from "../gguf-header.ts";
import { HeaderRoom } from "../gguf-reader.ts";
import { isGgufName, isProjectorName } from "../model-files.ts";
import type { ByteSource } from "../byte-source.ts";
import { findAddress, type Address, type Network } from "./address.ts";
import { FetchError } from "./fetch-error.ts";
import { unwilling } from "./response-facts.ts";
import { parseSource } from "./source.ts";
import { transfer } from "./transfer.ts";
import type { WantedModel } from "./wanted-model.ts";

export interface RemoteShapesOptions {
  readonly network: Omit<Network, "isOpen">;
  /** Smaller models are fetched without reading their header first: that takes hardly longer, and most of them fit. */
  readonly leastBytes: number;
  /** Addresses that are not found by then, or headers that have not come, are not waited for: the model is fetched. */
  readonly limitMs: number;
}

/** How many models are kept in mind. */
const most = 32;
/** A vocabulary takes megabytes: fewer requests, and little that is read for nothing. */
const windowBytes = 2 * 1024 * 1024;

/** Shapes of models that are not on this machine, by the headers of their files, which are read by ranges. */
export class RemoteShapes implements AsyncDisposable {
  readonly #options: RemoteShapesOptions;
  /** Undefined: the shape is unknown. */
  readonly #known = new Map<string, ModelShape | undefined>();
  readonly #reading = new Map<string, { readonly requesters: Set<string>; readonly done: Promise<void> }>();
  readonly #subscribers = new Subscribers<[requester: string]>();
  readonly #closing = new AbortController();
  /** The headers of one model at a time are in memory. */
  readonly #turns = new Serial();

  constructor(options: RemoteShapesOptions) {
    this.#options = options;
  }

  /**
   * Reads nothing. `reading`: for `requester` too, who is told when that has ended; `unread`: not asked for by `requester`.
   * Undefined: the shape is unknown.
   */
  known(model: WantedModel, requester: string): ModelShape | "unread" | "reading" | undefined {
    const key = shapeKey(model);
    if (this.#known.has(key)) return this.#known.get(key);
    return this.#reading.get(key)?.requesters.has(requester) === true ? "reading" : "unread";
  }

  /** Begins to read, unless the shape is known, or joins a running reading. */
  read(model: WantedModel, requester: string): void {
    const key = shapeKey(model);
    if (this.#known.has(key)) return;
    const running = this.#reading.get(key);
    if (running !== undefined) {
      running.requesters.add(requester);
      return;
    }
    const requesters = new Set([requester]);
    const done = this.#read(model)
      .catch(() => undefined)
      .then((shape) => {
        this.#reading.delete(key);
        if (this.#closing.signal.aborted) return;
        this.#known.set(key, shape);
        for (const [oldest] of this.#known) if (this.#known.size > most) this.#known.delete(oldest);
        for (const each of requesters) this.#subscribers.notify(each);
      });
    this.#reading.set(key, { requesters, done });
  }

  /** Calls `onRequester` with who should ask again. */
  watch(onRequester: (requester: string) => void): Disposable {
    return this.#subscribers.add(onRequester);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await Promise.all([...this.#reading.values()].map(({ done }) => done));
  }

  async #read({ files, isOpen }: WantedModel): Promise<ModelShape | undefined> {
    const { leastBytes } = this.#options;
    const signal = this.#limited();
    const network = { ...this.#options.network, isOpen };
    const addresses: (Address & { readonly sizeBytes: number })[] = [];
    for (const { source: text } of files) {
      const source = parseSource(text);
      if (source.scheme !== "hf" && source.scheme !== "https") return undefined;
      if (isProjectorName(source.fileName)) continue;
      if (!isGgufName(source.fileName)) return undefined;
      const address = await findAddress(source, network, signal);
      if (address.sizeBytes === undefined) return undefined;
      addresses.push({ ...address, sizeBytes: address.sizeBytes });
    }
    if (addresses.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) < leastBytes) return undefined;
    return await this.#turns.run(async () => {
      // A model that waited behind slow hubs has the whole time for its own.
      const inTurn = this.#limited();
      inTurn.throwIfAborted();
      const headers: GgufHeader[] = [];
      const room = new HeaderRoom();
      for (const address of addresses) headers.push(await readGgufHeader(remoteSource(address, network, inTurn), room));
      return shapeOf(headers);
    });
  }

  #limited(): AbortSignal {
    return AbortSignal.any([this.#closing.signal, AbortSignal.timeout(this.#options.limitMs)]);
  }
}

function shapeKey({ files, isOpen }: WantedModel): string {
  return canonicalJson([files, isOpen]);
}

/** A file on a server that answers ranges. Reads reject with FetchError or TransferError; none is tried again. */
function remoteSource(
  address: Address & { readonly sizeBytes: number },
  network: Network,
  signal: AbortSignal,
): ByteSource {
  const { url, headers, lookup, sizeBytes } = address;
  return {
    sizeBytes,
    windowBytes,
    async readRange(start, length) {
      const chunks: Buffer[] = [];
      let received = 0;
      let failure: FetchError | undefined;
      const range = `bytes=${start}-${start + length - 1}`;
      const request = { ...network, method: "GET" as const, url, headers: { ...headers, range }, lookup, signal };
      await transfer(request, {
        onHead: (head) => {
          // A whole file where a part of it was asked for may be hundreds of gigabytes.
          if (head.status !== 206) failure = unwilling(url, head);
          return failure === undefined;
        },
        onData: (chunk) => {
          received += chunk.length;
          if (received <= length) chunks.push(Buffer.from(chunk));
          return true;
        },
      });
      if (failure !== undefined) throw failure;
      if (received > length) throw new FetchError("FetchFailed", `${url.host} sends more than was asked for`);
      return Buffer.concat(chunks);
    },
  };
}
