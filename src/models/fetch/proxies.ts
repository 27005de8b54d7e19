import { isIP } from "node:net";
import { AddressSet } from "../../lib/addresses.ts";
import { isInnerHost } from "../../lib/inner-addresses.ts";
import { FetchError } from "./fetch-error.ts";
import { decoded } from "./source.ts";

/** An HTTP proxy. */
export interface Proxy {
  readonly url: URL;
  /** The value of its `Proxy-Authorization`; undefined: it asks for none. */
  readonly authorization: string | undefined;
}

/** The proxy for an address; undefined: it is connected to directly. Throws FetchError for a variable that is no such URL. */
export type Proxies = (url: URL) => Proxy | undefined;

/**
 * The proxies of `HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY`, with the exceptions of `NO_PROXY` (hosts, domains, ports,
 * networks, `*`); lower-case names count first. This machine is never reached by a proxy.
 */
export function proxiesFrom(env: NodeJS.ProcessEnv): Proxies {
  const valueOf = (name: string): string => (env[name.toLowerCase()] ?? env[name] ?? "").trim();
  const exceptions = valueOf("NO_PROXY")
    .split(/[\s,]+/)
    .filter((entry) => entry !== "");
  return (url) => {
    const names = [url.protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY", "ALL_PROXY"];
    const name = names.find((each) => valueOf(each) !== "");
    if (name === undefined || isInnerHost(url.hostname)) return undefined;
    if (exceptions.some((entry) => isExcepted(url, entry))) return undefined;
    return proxyIn(valueOf(name), name);
  };
}

function proxyIn(text: string, name: string): Proxy {
  const whole = text.includes("://") ? text : `http://${text}`;
  const url = URL.canParse(whole) ? new URL(whole) : undefined;
  // The value may hold a password: it is not repeated.
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.hostname === "")
    throw new FetchError("SourceRefused", `${name} is no http:// or https:// URL of a proxy`);
  const { username, password } = url;
  if (username === "" && password === "") return { url, authorization: undefined };
  const credentials = decoded(`${username}:${password}`);
  if (credentials === undefined)
    throw new FetchError(
      "SourceRefused",
      `${name} has a user or password that cannot be decoded: write a % in it as %25`,
    );
  return { url, authorization: `Basic ${Buffer.from(credentials).toString("base64")}` };
}

/** Whether an entry of `NO_PROXY` names the host: `host`, `.domain`, `host:port`, `10.0.0.0/8` or `*`. */
function isExcepted({ hostname, port, protocol }: URL, entry: string): boolean {
  if (entry === "*") return true;
  const host = hostname.replace(/^\[|\]$/g, "").toLowerCase();
  if (isIP(host) !== 0 && /^[\d.]+\/\d+$|^[\da-f:.]+(?:\/\d+)?$/i.test(entry)) {
    try {
      return new AddressSet([entry]).has(host);
    } catch {
      return false;
    }
  }
  const [, named = "", only] = /^(.*?)(?::(\d+))?$/.exec(entry.toLowerCase()) ?? [];
  if (only !== undefined && only !== (port === "" ? (protocol === "https:" ? "443" : "80") : port)) return false;
  const domain = named.replace(/^\*?\./, "");
  return host === domain || host.endsWith(`.${domain}`);
}
