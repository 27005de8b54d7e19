import type { HubListing, HubModel } from "../../api/model-task.ts";
import { isInnerHost, outerLookup } from "../../lib/inner-addresses.ts";
import { isRecord } from "../../lib/record.ts";
import { isGgufName, isProjectorName, modelFiles } from "../model-files.ts";
import { hintedOn, type Network } from "./address.ts";
import { FetchError } from "./fetch-error.ts";
import { hubRefusal } from "./hub.ts";
import { parseSource, type Source } from "./source.ts";
import { transfer, TransferError, type TransferHead, type TransferRequest } from "./transfer.ts";

/** A revision of a repository of the hub. */
export type HubRepository = Pick<Extract<Source, { scheme: "hf" }>, "owner" | "repo" | "revision">;

const mostPages = 10;
const mostRedirects = 3;
/** A page has up to a thousand files, each described in some hundred bytes. */
const pageLimitBytes = 4 * 1024 * 1024;
const mostModels = 200;
const mostPaths = 2000;

/**
 * The models in a repository, by the names and sizes that the hub tells. Nothing is fetched of the files. A connection that
 * breaks off is tried once more. Rejects with FetchError, or as `signal` was aborted.
 */
export async function listHub(repository: HubRepository, network: Network, signal: AbortSignal): Promise<HubListing> {
  const files = new Map<string, number>();
  let url: URL | undefined = network.hub.listOf(repository);
  for (let pages = 0; url !== undefined && pages < mostPages; pages++) {
    const { entries, next }: Page = await pageAt(url, repository, network, signal);
    for (const entry of entries) {
      const { type, path, size } = isRecord(entry) ? entry : {};
      const isFile = type === "file" && typeof path === "string" && typeof size === "number";
      if (isFile && Number.isSafeInteger(size) && size >= 0 && isGgufName(path) && isFetchable(repository, path))
        files.set(path, size);
    }
    url = next;
  }
  return listingOf(files);
}

/** The models among the files of a repository, given by their paths and sizes. */
export function listingOf(files: ReadonlyMap<string, number>): HubListing {
  const paths = [...files.keys()].toSorted();
  const sizeOf = (each: readonly string[]): number => each.reduce((sum, path) => sum + (files.get(path) ?? 0), 0);
  const models = modelFiles(paths)
    // Without one of its shards a model cannot be loaded.
    .filter(({ paths: own, shardCount }) => own.length === shardCount)
    .map(({ ref, paths: own }): HubModel => {
      const quantization = quantizationIn(ref);
      return { paths: [...own], ...(quantization === undefined ? {} : { quantization }), sizeBytes: sizeOf(own) };
    })
    .toSorted((one, other) => one.sizeBytes - other.sizeBytes);
  const projectors = paths.filter(isProjectorName).map((path): HubModel => {
    const quantization = quantizationIn(path.replace(/\.gguf$/i, ""));
    const named = quantization === undefined ? {} : { quantization };
    return { paths: [path], ...named, sizeBytes: sizeOf([path]), isProjector: true };
  });
  const listed: HubModel[] = [];
  let pathsLeft = mostPaths;
  for (const model of [...models, ...projectors]) {
    if (listed.length >= mostModels || model.paths.length > pathsLeft) break;
    pathsLeft -= model.paths.length;
    listed.push(model);
  }
  return { models: listed, leftOut: models.length + projectors.length - listed.length };
}

/** `Q4_K_M` of `Qwen3-4B-Q4_K_M`, as publishers name their files. */
export function quantizationIn(stem: string): string | undefined {
  const found =
    /(?:^|[-._/])((?:UD-)?(?:I?Q\d(?:_[A-Z\d]+)*|TQ\d_\d|MXFP4(?:_MOE)?|NVFP4|BF16|F16|FP16|F32|FP32))(?=$|[-./])/gi;
  return [...stem.matchAll(found)].at(-1)?.[1]?.toUpperCase();
}

interface Page {
  readonly entries: readonly unknown[];
  readonly next: URL | undefined;
}

async function pageAt(first: URL, repository: HubRepository, network: Network, signal: AbortSignal): Promise<Page> {
  const { hub } = network;
  const token = await hub.token();
  let url = first;
  for (let redirects = 0; redirects <= mostRedirects; redirects++) {
    const { head, body } = await answerOf(url, token, network, signal);
    const location = head.headers.get("location");
    if (head.status >= 300 && head.status < 400 && location !== undefined) {
      // A repository that was renamed. The token goes to no other server.
      url = sameOrigin(location, url);
      continue;
    }
    if (head.status !== 200) {
      const source = { scheme: "hf", ...repository, path: "its files", fileName: "" } as const;
      throw hubRefusal(source, head, hub, token !== undefined);
    }
    const link = /<([^>]*)>\s*;\s*rel="?next"?/.exec(head.headers.get("link") ?? "")?.[1];
    return { entries: entriesIn(body, url), next: link === undefined ? undefined : sameOrigin(link, url) };
  }
  throw new FetchError("FetchFailed", `${first.host} redirects more than ${mostRedirects} times`);
}

async function answerOf(
  url: URL,
  token: string | undefined,
  network: Network,
  signal: AbortSignal,
): Promise<{ readonly head: TransferHead; readonly body: Buffer }> {
  const ask = async (): Promise<{ readonly head: TransferHead; readonly body: Buffer }> => {
    const chunks: Buffer[] = [];
    let received = 0;
    let head: TransferHead | undefined;
    const request: TransferRequest = {
      ...network,
      method: "GET",
      url,
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      lookup: isInnerHost(url.hostname) ? undefined : outerLookup(),
      signal,
    };
    await transfer(request, {
      onHead: (found) => {
        head = found;
        return found.status === 200;
      },
      onData: (chunk) => {
        received += chunk.length;
        if (received > pageLimitBytes)
          throw new FetchError("FetchFailed", `the list of files of ${url.host} is too long`);
        chunks.push(Buffer.from(chunk));
        return true;
      },
    });
    if (head === undefined) throw new TransferError("broken", `${url.host} has given no answer`);
    return { head, body: Buffer.concat(chunks) };
  };
  try {
    return await ask().catch(async (error: unknown) => {
      if (error instanceof TransferError) return await ask();
      throw error;
    });
  } catch (error) {
    const hinted = hintedOn(error, url, network.hub);
    if (hinted instanceof TransferError) throw new FetchError("FetchFailed", hinted.message, { cause: error });
    throw hinted;
  }
}

function entriesIn(body: Buffer, { host }: URL): readonly unknown[] {
  try {
    const parsed: unknown = JSON.parse(body.toString("utf8"));
    if (Array.isArray(parsed)) return parsed;
  } catch {
    // Reported below.
  }
  throw new FetchError(
    "FetchFailed",
    `${host} answers with something else than a list of files: is HF_ENDPOINT a hub?`,
  );
}

function sameOrigin(location: string, url: URL): URL {
  const next = URL.canParse(location, url.href) ? new URL(location, url) : undefined;
  if (next?.origin === url.origin) return next;
  throw new FetchError("FetchFailed", `${url.host} leads to another server for its list of files`);
}

/** Whether the path can be written as a source: another path is none that a person could choose. */
function isFetchable({ owner, repo, revision }: HubRepository, path: string): boolean {
  try {
    parseSource(`hf://${owner}/${repo}/${path}@${revision}`);
    return true;
  } catch {
    return false;
  }
}
