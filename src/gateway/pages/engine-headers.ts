import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import { ApiError } from "../../api/errors.ts";

/** One start of an engine, as its page is asked for. */
export interface PageEngine {
  readonly host: string;
  readonly port: number;
  /** The secret that the engine requires; no browser sees it. */
  readonly bearer?: string | undefined;
  /** Milliseconds without a byte after which the engine counts as hanging; 0: never. */
  readonly timeoutMs: number;
}

/** Headers of one connection (RFC 9110, 7.6.1). */
const ofConnection = new Set(
  "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade".split(
    " ",
  ),
);
/** Headers by which a client describes itself to the gateway: credentials, addresses, and the browser's page. */
const ofGateway =
  /^(?:authorization|x-api-key|cookie|host|origin|referer|forwarded|x-forwarded-.*|x-real-ip|via|expect|sec-fetch-.*)$/;
/**
 * Headers that an engine must not set for the gateway's address: who else may read it, passwords to ask for, other
 * addresses and rules for the whole host.
 */
const ofEngine =
  /^(?:access-control-.*|www-authenticate|alt-svc|strict-transport-security|clear-site-data|service-worker-allowed|refresh|report-to|reporting-endpoints|nel|set-cookie|location|content-location|x-request-id)$/;

/** Names and values in turn. The policy stands beside the engine's own: both hold. */
const ofEveryPage = [
  "content-security-policy",
  "frame-ancestors 'self'",
  "cross-origin-resource-policy",
  "same-origin",
  "cross-origin-opener-policy",
  "same-origin",
  "referrer-policy",
  "same-origin",
];

export const pagePath = (slot: string): string => `/upstream/${slot}/`;

/** The headers of a request as its engine gets them: the slot's own cookies and bearer, and none of the client's. */
export function headersForEngine(headers: IncomingHttpHeaders, slot: string, engine: PageEngine): OutgoingHttpHeaders {
  const named = new Set((headers.connection ?? "").toLowerCase().split(/ *, */));
  const sent: OutgoingHttpHeaders = {};
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined && !ofConnection.has(name) && !named.has(name) && !ofGateway.test(name)) sent[name] = value;
  const cookies = cookiesOf(headers.cookie ?? "", slot);
  if (cookies !== "") sent["cookie"] = cookies;
  const origin = originOf(engine);
  sent["host"] = origin.slice("http://".length);
  // The gateway has compared the browser's; an engine compares this one with its own address.
  if (headers.origin !== undefined) sent["origin"] = origin;
  if (engine.bearer !== undefined) sent["authorization"] = `Bearer ${engine.bearer}`;
  return sent;
}

/**
 * The headers of an answer as the browser gets them, names and values in turn. Throws ApiError
 * `dispatch.upstream_failed` for a redirect to another server. `path`: of the request, at the engine.
 */
export function headersForBrowser(raw: readonly string[], slot: string, engine: PageEngine, path: string): string[] {
  const sent: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const [name = "", value = ""] = [raw[at]?.toLowerCase(), raw[at + 1]];
    if (name === "set-cookie") sent.push(name, cookieFor(value, slot));
    else if (name === "location") sent.push(name, redirectFor(value, slot, engine, path));
    else if (!ofConnection.has(name) && !ofEngine.test(name)) sent.push(name, value);
  }
  return [...sent, ...ofEveryPage];
}

/** A redirect within the engine's own addresses, below the slot's path. */
function redirectFor(to: string, slot: string, engine: PageEngine, path: string): string {
  const origin = originOf(engine);
  const url = URL.parse(to, `${origin}${path}`);
  if (url?.origin !== origin) {
    const message = `the engine of slot ${slot} leads to another server, and is not followed there`;
    throw new ApiError("dispatch.upstream_failed", { message });
  }
  return `${pagePath(slot)}${url.pathname.slice(1)}${url.search}${url.hash}`;
}

/** Cookies know no ports: names of their own keep those of engines, the gateway's host and other programs apart. */
const prefixOf = (slot: string): string => `berth.${slot}.`;

function cookieFor(cookie: string, slot: string): string {
  const [pair = "", ...attributes] = cookie.split(";").map((part) => part.trim());
  const kept = attributes.filter((each) => /^(?:expires|max-age|httponly|secure|samesite)(?:=|$)/i.test(each));
  return [`${prefixOf(slot)}${pair}`, ...kept, `Path=${pagePath(slot)}`].join("; ");
}

function cookiesOf(header: string, slot: string): string {
  const prefix = prefixOf(slot);
  return header
    .split(";")
    .map((each) => each.trim())
    .flatMap((each) => (each.startsWith(prefix) ? [each.slice(prefix.length)] : []))
    .join("; ");
}

function originOf({ host, port }: PageEngine): string {
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
