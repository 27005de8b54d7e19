import { fileURLToPath } from "node:url";
import { FetchError } from "./fetch-error.ts";

/** The source of one file's bytes. */
export type Source =
  | {
      readonly scheme: "hf";
      readonly owner: string;
      readonly repo: string;
      readonly path: string;
      readonly revision: string;
      readonly fileName: string;
    }
  | { readonly scheme: "https"; readonly url: URL; readonly fileName: string }
  | { readonly scheme: "file"; readonly path: string; readonly fileName: string }
  | { readonly scheme: "flm"; readonly model: string };

const longestText = 2048;
/** In bytes: a file system takes 255, and a temporary name has 42 more. */
const longestFileName = 200;
const hubName = /^[A-Za-z0-9][\w.-]{0,95}$/;
const revisionText = /^[\w][\w./-]{0,127}$/;
const flmModel = /^[A-Za-z0-9][\w.-]{0,63}(?::[\w.-]{1,63})?$/;
const loopbackHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/i;

/**
 * Reads `hf://owner/repo/path/file[@revision]`, `https://…`, `file:///…` or `flm://family:size`. Throws FetchError for
 * any other text, and for a file name that leads out of its directory.
 */
export function parseSource(text: string): Source {
  if (text.length > longestText) throw refused(text.slice(0, 100), "is too long");
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase();
  switch (scheme) {
    case "hf":
      return hubSource(text);
    case "https":
    case "http":
      return webSource(text);
    case "file":
      return fileSource(text);
    case "flm": {
      const model = text.slice("flm://".length);
      if (!flmModel.test(model)) throw refused(text, "is no flm://family:size");
      return { scheme, model };
    }
    case undefined:
      throw refused(text, "is no source: it starts with hf://, https://, file:// or flm://");
    default:
      throw refused(text, `has the scheme ${scheme}, which cannot be fetched: use hf://, https://, file:// or flm://`);
  }
}

/** A name that stays in its directory: one part, not hidden, and no longer than a file system takes. Throws FetchError. */
export function safeFileName(name: string, text: string): string {
  if (Buffer.byteLength(name) > longestFileName)
    throw refused(text, `names a file by more than ${longestFileName} bytes: name it by \`as\` in a manifest`);
  // oxlint-disable-next-line no-control-regex -- a file name must hold none
  if (name === "" || name.startsWith(".") || /[/\\\u0000-\u001f\u007f]/.test(name)) {
    throw refused(text, "names no file: the last part of its path must be a plain file name");
  }
  return name;
}

function hubSource(text: string): Source {
  const rest = text.slice("hf://".length);
  const at = rest.lastIndexOf("@");
  const [named, revision] = at === -1 ? [rest, "main"] : [rest.slice(0, at), rest.slice(at + 1)];
  const [owner = "", repo = "", ...parts] = named.split("/");
  if (!hubName.test(owner) || !hubName.test(repo) || parts.length === 0) {
    throw refused(text, "is no hf://owner/repo/file[@revision]");
  }
  if (!revisionText.test(revision) || revision.split("/").includes("..")) {
    throw refused(text, `has the revision ${JSON.stringify(revision)}, which is no branch, tag or commit`);
  }
  if (parts.some((part) => part === "" || part === "." || part === "..")) throw refused(text, "has an odd path");
  const fileName = safeFileName(parts.at(-1) ?? "", text);
  return { scheme: "hf", owner, repo, path: parts.join("/"), revision, fileName };
}

function webSource(text: string): Source {
  const url = parsedUrl(text);
  if (url === undefined || url.hostname === "") throw refused(text, "is no URL");
  if (url.username !== "" || url.password !== "") {
    throw refused(`${url.protocol}//${url.host}`, "holds a password in its URL, which would be shown and logged");
  }
  if (url.protocol === "http:" && !loopbackHost.test(url.hostname)) {
    throw refused(text, "is plain http://, which anybody on the way can change: use https://");
  }
  const last = decoded(url.pathname.split("/").at(-1) ?? "");
  if (last === undefined) throw refused(text, "has a path that cannot be decoded");
  return { scheme: "https", url, fileName: safeFileName(last, text) };
}

function fileSource(text: string): Source {
  if (!text.startsWith("file:///")) throw refused(text, "is no file:///absolute/path");
  try {
    const path = fileURLToPath(text);
    return { scheme: "file", path, fileName: safeFileName(path.split("/").at(-1) ?? "", text) };
  } catch (error) {
    if (error instanceof FetchError) throw error;
    throw refused(text, "is no file:///absolute/path");
  }
}

function parsedUrl(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

/** Undefined where a percent sign begins no escape. */
export function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function refused(text: string, why: string): FetchError {
  return new FetchError("SourceRefused", `${text} ${why}`);
}
