import type { LookupFunction } from "node:net";
import { InnerAddress, isInnerHost, outerLookup } from "../../lib/inner-addresses.ts";
import { FetchError } from "./fetch-error.ts";
import { hubFrom, hubRefusal, readHubHead, type HubOptions } from "./hub.ts";
import { proxiesFrom, type Proxies } from "./proxies.ts";
import { sizeOf, unwilling, validatorOf } from "./response-facts.ts";
import { parseSource, type Source } from "./source.ts";
import { transfer, TransferError, type TransferHead } from "./transfer.ts";
import { endpointHint } from "./unreachable.ts";

/** The rules for the use of the network. */
export interface Network {
  readonly hub: HubOptions;
  /**
   * Whether addresses of this machine, link-local addresses and those of a cloud's metadata service are refused. Private
   * networks (RFC 1918) are not.
   */
  readonly isOpen: boolean;
  /** Absent: no proxy is used. */
  readonly proxies?: Proxies;
  readonly connectMs: number;
  readonly stallMs: number;
  /** The wait before the third attempt; each later attempt waits twice as long. */
  readonly retryMs: number;
}

/** The address of a file's bytes, with the known facts about them. */
export interface Address {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly lookup: LookupFunction | undefined;
  readonly sizeBytes: number | undefined;
  /** Strong identity of the content from its server: an ETag, or the time of its last change. */
  readonly validator: string | undefined;
  readonly sha256: string | undefined;
  /** The commit of a hub's repository. */
  readonly commit: string | undefined;
}

type WebSource = Extract<Source, { scheme: "hf" | "https" }>;

const redirectLimit = 8;
const isRedirect = new Set([301, 302, 303, 307, 308]);
/** Statuses of a server that supports no HEAD, or has signed an address for GET only. */
const refusesHead = new Set([400, 403, 405, 501]);

/**
 * Resolves the address of the bytes without fetching them. Redirects are followed here, one by one, so that a token
 * goes to its own server only and no redirect leads to this machine. Rejects with FetchError or TransferError.
 */
export async function findAddress(source: WebSource, network: Network, signal: AbortSignal): Promise<Address> {
  const { hub } = network;
  const first = source.scheme === "hf" ? hub.urlOf(source) : source.url;
  const token = source.scheme === "hf" ? await hub.token() : undefined;
  // A source that may name a local server, such as a hub on this machine, may be redirected to another local server.
  const isNamed = source.scheme === "hf" || !network.isOpen;
  const lookup = isInnerHost(first.hostname) && isNamed ? undefined : outerLookup();
  let linked: ReturnType<typeof readHubHead> = {};
  let url = first;
  for (let redirects = 0; redirects <= redirectLimit; redirects++) {
    checkUrl(url, first, lookup === undefined);
    const isHub = source.scheme === "hf" && url.origin === first.origin;
    const headers: Record<string, string> = isHub && token !== undefined ? { authorization: `Bearer ${token}` } : {};
    const head = await headOf(url, headers, lookup, network, signal);
    if (isHub) linked = { ...linked, ...readHubHead(head) };
    const location = head.headers.get("location");
    if (isRedirect.has(head.status) && location !== undefined) {
      url = redirectedUrl(location, url);
      if (linked.sizeBytes === undefined || linked.sha256 === undefined) continue;
      // The hub's headers are complete, and the address of the redirect may be signed for a single GET.
      checkUrl(url, first, lookup === undefined);
      const isSame = url.origin === first.origin;
      const { sizeBytes, sha256, commit } = linked;
      return { url, headers: isSame ? headers : {}, lookup, sizeBytes, validator: undefined, sha256, commit };
    }
    if (head.status !== 200 && head.status !== 206) {
      throw source.scheme === "hf" && isHub
        ? hubRefusal(source, head, hub, token !== undefined)
        : webRefusal(source, url, head);
    }
    const { headers: received } = head;
    const { sha256, commit } = linked;
    const sizeBytes = linked.sizeBytes ?? sizeOf(head);
    return { url, headers, lookup, sizeBytes, validator: validatorOf(received), sha256, commit };
  }
  throw new FetchError("FetchFailed", `${first.host} redirects more than ${redirectLimit} times`);
}

/**
 * The facts that the server of a source gives about its file, without fetching the file. Rejects with FetchError or
 * TransferError. `HF_ENDPOINT`, `HF_TOKEN` and the variables of proxies are read from `env`.
 */
export async function askSource(
  text: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<Pick<Address, "sizeBytes" | "sha256" | "commit">> {
  const source = parseSource(text);
  if (source.scheme !== "hf" && source.scheme !== "https")
    throw new FetchError("SourceRefused", `${text} has no server that could be asked`);
  const limits = { connectMs: 15_000, stallMs: 15_000, retryMs: 250 };
  const network = { hub: hubFrom(env), proxies: proxiesFrom(env), isOpen: true, ...limits };
  const { sizeBytes, sha256, commit } = await findAddress(source, network, signal);
  return { sizeBytes, sha256, commit };
}

async function headOf(
  url: URL,
  headers: Readonly<Record<string, string>>,
  lookup: LookupFunction | undefined,
  network: Network,
  signal: AbortSignal,
): Promise<TransferHead> {
  const request = async (method: "HEAD" | "GET", more: Readonly<Record<string, string>>): Promise<TransferHead> => {
    let found: TransferHead | undefined;
    const sink = {
      onHead: (head: TransferHead) => {
        found = head;
        return false;
      },
      onData: () => true,
    };
    try {
      await transfer({ ...network, method, url, headers: { ...headers, ...more }, lookup, signal }, sink);
    } catch (error) {
      if (error instanceof TransferError && error.cause instanceof InnerAddress) {
        throw new FetchError("SourceRefused", `${error.cause.message}, which is not fetched from`, { cause: error });
      }
      throw hintedOn(error, url, network.hub);
    }
    if (found === undefined) throw new TransferError("broken", `${url.host} has given no answer`);
    return found;
  };
  const head = await request("HEAD", {});
  if (!refusesHead.has(head.status) || head.headers.has("x-error-code")) return head;
  return await request("GET", { range: "bytes=0-0" });
}

/** The error, with a hint at `HF_ENDPOINT` where it is about a connection to the hub. */
export function hintedOn(error: unknown, { origin }: URL, { endpoint }: HubOptions): unknown {
  if (!(error instanceof TransferError) || error.phase !== "connect" || origin !== endpoint.origin) return error;
  return new TransferError("connect", `${error.message}${endpointHint}`, { cause: error.cause });
}

/** Throws FetchError for an address that a redirect must not lead to. */
export function checkUrl(url: URL, first: URL, allowsInner: boolean): void {
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    throw new FetchError("SourceRefused", `${first.host} redirects to ${url.protocol}//, which is not fetched`);
  }
  if (isInnerHost(url.hostname) && !allowsInner) {
    const how = url.host === first.host ? "is an address of this machine" : `redirects to this machine (${url.host})`;
    throw new FetchError("SourceRefused", `${first.host} ${how}, which is not fetched from`);
  }
  if (url.protocol === "http:" && first.protocol === "https:") {
    throw new FetchError("SourceRefused", `${first.host} redirects to plain http://${url.host}, which is not fetched`);
  }
}

function redirectedUrl(location: string, url: URL): URL {
  if (!URL.canParse(location, url.href)) {
    throw new FetchError("FetchFailed", `${url.host} redirects to what is no URL`);
  }
  return new URL(location, url);
}

function webRefusal(source: WebSource, url: URL, head: TransferHead): FetchError {
  const { status } = head;
  const file = source.fileName;
  if (status === 404 || status === 410) {
    return new FetchError("SourceNotFound", `${url.host} has no ${file} there (HTTP ${status})`);
  }
  if (status === 401 || status === 403) {
    return new FetchError("Unauthorized", `${url.host} does not give ${file} to everybody (HTTP ${status})`);
  }
  return unwilling(url, head);
}
