import type { ByteSource } from "../byte-source.ts";
import type { Address, Network } from "./address.ts";
import { FetchError } from "./fetch-error.ts";
import { unwilling } from "./response-facts.ts";
import { transfer } from "./transfer.ts";

/** A vocabulary takes megabytes: fewer requests, and little that is read for nothing. */
const windowBytes = 2 * 1024 * 1024;

/** A file on a server that answers ranges. Reads reject with FetchError or TransferError; none is tried again. */
export function remoteSource(
  address: Address & { readonly sizeBytes: number },
  network: Network,
  signal: AbortSignal,
): ByteSource {
  const { url, headers, lookup, sizeBytes } = address;
  const { connectMs, stallMs, proxies } = network;
  return {
    sizeBytes,
    windowBytes,
    async readRange(start, length) {
      const chunks: Buffer[] = [];
      let received = 0;
      let failure: FetchError | undefined;
      const request = {
        method: "GET" as const,
        url,
        lookup,
        proxy: proxies?.(url),
        headers: { ...headers, range: `bytes=${start}-${start + length - 1}` },
        connectMs,
        stallMs,
        signal,
      };
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
