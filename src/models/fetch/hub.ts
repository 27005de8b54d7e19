import { readFile } from "node:fs/promises";
import { errorMessage } from "../../lib/error-code.ts";
import { FetchError } from "./fetch-error.ts";
import { unwilling } from "./response-facts.ts";
import type { Source } from "./source.ts";
import type { TransferHead } from "./transfer.ts";

type HubSource = Extract<Source, { scheme: "hf" }>;

/** A server that speaks as huggingface.co does. */
export interface HubOptions {
  readonly endpoint: URL;
  urlOf(source: HubSource): URL;
  /** The first page of the list of a repository's files. */
  listOf(repository: Pick<HubSource, "owner" | "repo" | "revision">): URL;
  token(): Promise<string | undefined>;
}

const defaultEndpoint = "https://huggingface.co";

/**
 * The hub that `HF_ENDPOINT` names, with the token of `HF_TOKEN` or of the file that `HF_TOKEN_PATH` names. The file is
 * read at each use, so that a token can be replaced without a restart. Never throws: where the endpoint is no URL,
 * `urlOf` and `listOf` do.
 */
export function hubFrom(env: NodeJS.ProcessEnv): HubOptions {
  const { HF_ENDPOINT: named, HF_TOKEN: token, HF_TOKEN_PATH: file } = env;
  const text = named === undefined || named === "" ? defaultEndpoint : named;
  const isUrl = URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
  const endpoint = new URL(isUrl ? text : defaultEndpoint);
  const base = endpoint.href.replace(/\/+$/, "");
  const below = (path: string): URL => {
    if (!isUrl) throw new FetchError("SourceRefused", `HF_ENDPOINT is ${text}, which is no http:// or https:// URL`);
    return new URL(`${base}/${path}`);
  };
  return {
    endpoint,
    urlOf: ({ owner, repo, revision, path }) => {
      const parts = path.split("/").map((part) => encodeURIComponent(part));
      return below(`${owner}/${repo}/resolve/${encodeURIComponent(revision)}/${parts.join("/")}`);
    },
    listOf: ({ owner, repo, revision }) =>
      below(`api/models/${owner}/${repo}/tree/${encodeURIComponent(revision)}?recursive=true`),
    token: async () => {
      if (token !== undefined && token.trim() !== "") return checkedToken(token, "HF_TOKEN");
      if (file === undefined || file === "") return undefined;
      const read = await readFile(file, "utf8").catch((error: unknown) => {
        throw new FetchError("Unauthorized", `HF_TOKEN_PATH cannot be read: ${errorMessage(error)}`);
      });
      return checkedToken(read, "HF_TOKEN_PATH");
    },
  };
}

/** The headers in which the hub describes a large file, sent with the redirect to the address of its content. */
export function readHubHead({ headers }: TransferHead): { sizeBytes?: number; sha256?: string; commit?: string } {
  const etag = /^(?:W\/)?"?([0-9a-f]{64})"?$/.exec(headers.get("x-linked-etag") ?? "")?.[1];
  const size = headers.get("x-linked-size") ?? "";
  const commit = headers.get("x-repo-commit") ?? "";
  return {
    ...(etag === undefined ? {} : { sha256: etag }),
    ...(/^\d{1,15}$/.test(size) ? { sizeBytes: Number(size) } : {}),
    ...(/^[0-9a-f]{40}$/.test(commit) ? { commit } : {}),
  };
}

/** The reason why the hub refuses the file, and what a person can do. */
export function hubRefusal(source: HubSource, head: TransferHead, hub: HubOptions, hasToken: boolean): FetchError {
  const { status, headers } = head;
  const { owner, repo, path, revision } = source;
  const page = new URL(`/${owner}/${repo}`, hub.endpoint).href;
  const code = headers.get("x-error-code");
  if (code === "GatedRepo") {
    const what = hasToken
      ? `the account of HF_TOKEN may not read ${owner}/${repo}: open ${page} with that account and accept its terms`
      : `${owner}/${repo} asks for its terms to be accepted: open ${page}, accept them, and set HF_TOKEN to a token of that account`;
    return new FetchError("Unauthorized", what);
  }
  if (code === "RevisionNotFound") {
    return new FetchError("SourceNotFound", `${owner}/${repo} has no revision ${revision}: see ${page}`);
  }
  if (code === "EntryNotFound") {
    return new FetchError("SourceNotFound", `${owner}/${repo} has no file ${path} at ${revision}: see ${page}`);
  }
  if (code === "RepoNotFound" || status === 404) {
    const hint = hasToken ? "" : ", or is private and needs HF_TOKEN";
    return new FetchError("SourceNotFound", `${page} has no such file or repository${hint}`);
  }
  if (status === 401 || status === 403) {
    const hint = hasToken ? "the token of HF_TOKEN is not accepted" : "set HF_TOKEN to a token that may read it";
    return new FetchError("Unauthorized", `${page} does not give ${path} (HTTP ${status}): ${hint}`);
  }
  return unwilling(hub.endpoint, head);
}

function checkedToken(text: string, where: string): string {
  const token = text.trim();
  // Any other character would end the header, or begin another header.
  if (!/^[\x21-\x7e]{1,500}$/.test(token)) throw new FetchError("Unauthorized", `${where} holds no token`);
  return token;
}
