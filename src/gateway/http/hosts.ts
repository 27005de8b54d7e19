import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import { hostname as machineName } from "node:os";
import { ApiError } from "../../api/errors.ts";
import { Cors } from "./cors.ts";

/** The parts of a request that the guard reads; an `IncomingMessage` has them. */
export interface GuardedRequest {
  readonly method?: string | undefined;
  readonly headers: IncomingHttpHeaders;
}

/**
 * `api` changes and shows things of this machine, and so does `router` for programs that know llama-server's router;
 * `v1` is for programs, and `engine` are its routes that reach an engine or a provider, with any method; `page` is an
 * engine's own page, to which a link may lead; `other` shows nothing that needs a guard.
 */
export type RouteKind = "api" | "router" | "v1" | "engine" | "page" | "other";

/**
 * A page of another site may do nothing through a person's browser (DECISIONS 1). A page that rebinds its name to our
 * address is recognised by its Host, a page that posts across sites by its Origin or Sec-Fetch-Site.
 */
export class HostGuard {
  readonly #allowed: ReadonlySet<string>;
  readonly #cors: Cors;

  /** `names`: the names of this service. `cors`: the origins whose pages may call /v1. */
  constructor(names: readonly string[], cors = new Cors([])) {
    this.#cors = cors;
    const machine = machineName().toLowerCase();
    this.#allowed = new Set(["localhost", machine, `${machine}.local`, ...names.map((name) => name.toLowerCase())]);
  }

  /** Throws ApiError `auth.forbidden`. */
  check({ method, headers }: GuardedRequest, kind: RouteKind): void {
    if (kind === "other") return;
    if (kind === "page") {
      this.#checkHost(headers.host ?? "");
      if (isForeign(headers) && !isLinkFromHere(method, headers)) throw foreign();
      return;
    }
    if (kind === "v1" || kind === "engine") {
      // Programs may call /v1 by any name that the network has for us.
      if (!isBrowser(headers) || (headers.origin !== undefined && this.#cors.isWelcome(headers.origin))) return;
    }
    this.#checkHost(headers.host ?? "");
    // A request to an engine may load a model: a picture or a link of another site must not.
    if (kind !== "engine" && (method === "GET" || method === "HEAD")) return;
    // A browser sends a preflight before JSON or a token across sites, which is refused: no page of another site sends
    // these. A browser adds a saved password by itself.
    const isForPrograms = kind === "v1" || kind === "engine";
    if (isForPrograms && (isJson(headers["content-type"]) || isBearer(headers.authorization))) return;
    if (isForeign(headers) || (kind === "engine" && isOfUnknownSite(headers))) throw foreign();
  }

  #checkHost(host: string): void {
    const name = nameOf(host);
    if (isIP(name) !== 0 || this.#allowed.has(name)) return;
    throw new ApiError("auth.forbidden", {
      message: `this service is not called ${printable(name)}; see SVC_ALLOWED_HOSTS`,
    });
  }
}

/**
 * Only browsers send these. Over plain HTTP, a browser sends neither `Origin` nor `Sec-Fetch-Site` with a picture or a GET of
 * a page's own site; every browser begins its `User-Agent` so, which a page can change in Firefox alone, and only for requests
 * to the page's own site.
 */
function isBrowser(headers: IncomingHttpHeaders): boolean {
  if (headers.origin !== undefined || headers["sec-fetch-site"] !== undefined) return true;
  return headers["user-agent"]?.startsWith("Mozilla/") === true;
}

function isOfUnknownSite(headers: IncomingHttpHeaders): boolean {
  return headers.origin === undefined && headers["sec-fetch-site"] === undefined;
}

function foreign(): ApiError {
  const message =
    "another site may not change anything here, nor send a request to an engine; a page of this site sends content-type: application/json, or a token";
  return new ApiError("auth.forbidden", { message });
}

/** A person follows a link of another port of this host, such as the dashboard's; no frame, no picture, no script. */
function isLinkFromHere(method: string | undefined, headers: IncomingHttpHeaders): boolean {
  return (
    method === "GET" &&
    headers["sec-fetch-site"] === "same-site" &&
    headers["sec-fetch-mode"] === "navigate" &&
    headers["sec-fetch-dest"] === "document"
  );
}

function isJson(contentType: string | undefined): boolean {
  return contentType !== undefined && /^application\/json *(?:;|$)/i.test(contentType);
}

function isBearer(authorization: string | undefined): boolean {
  return authorization !== undefined && /^bearer /i.test(authorization);
}

function isForeign(headers: IncomingHttpHeaders): boolean {
  const site = headers["sec-fetch-site"];
  if (site === "cross-site" || site === "same-site") return true;
  const { origin, host = "" } = headers;
  if (origin === undefined) return false;
  // Another port is another program. A URL omits the scheme's default port on both sides.
  const from = URL.parse(origin);
  const here = URL.parse(`${from?.protocol ?? "http:"}//${host}`);
  return from === null || here === null || from.host === "" || from.host !== here.host;
}

/** A host without its port and final dot; brackets of an IPv6 address removed. */
function nameOf(host: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d*)?$/.exec(host)?.[1];
  return (bracketed ?? host.replace(/:\d*$/, "").replace(/\.$/, "")).toLowerCase();
}

function printable(name: string): string {
  return name.replaceAll(/[^\x21-\x7e]/g, "?").slice(0, 100);
}
