import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { Refusal } from "./refusal.ts";

/**
 * Checks the clients of this engine. Its port is open to every program of the machine and, through a browser, to every
 * web page: only the gateway knows the key, and no page can send a request that passes these checks.
 */
export class Gate {
  readonly #keys: readonly Buffer[];

  /** `keys`: in llama-server's form, separated by commas; undefined or empty: none is required. */
  constructor(keys: string | undefined) {
    this.#keys = (keys ?? "")
      .split(",")
      .map((key) => key.trim())
      .filter((key) => key !== "")
      .map(hashed);
  }

  /** Throws Refusal. `isPublic`: no key is required, as llama-server requires none there. */
  check({ method, headers }: IncomingMessage, isPublic: boolean): void {
    const { host = "", origin } = headers;
    if (!isOwnHost(host)) throw new Refusal(403, "this Host is none of this machine");
    const site = headers["sec-fetch-site"] ?? "none";
    const isForeign = origin !== undefined && URL.parse(origin)?.host !== host.toLowerCase();
    if (isForeign || (site !== "none" && site !== "same-origin"))
      throw new Refusal(403, "a page of another site may not ask this engine");
    if (!isPublic && !this.#isKnown(headers.authorization)) throw new Refusal(401, "the API key is missing or wrong");
    const type = headers["content-type"]?.split(";")[0]?.trim().toLowerCase();
    // A browser sends a form's content types without a preflight, from any page.
    if (method === "POST" && type !== "application/json")
      throw new Refusal(415, "the body must be of the content type application/json");
  }

  #isKnown(authorization: string | undefined): boolean {
    if (this.#keys.length === 0) return true;
    const given = hashed(/^Bearer +(\S+)$/i.exec(authorization ?? "")?.[1] ?? "");
    return this.#keys.some((key) => timingSafeEqual(key, given));
  }
}

/**
 * An address or `localhost`: another name that resolves to this machine means that a page sends the request (DNS
 * rebinding).
 */
function isOwnHost(host: string): boolean {
  const name = /^\[([^\]]+)\](?::\d+)?$/.exec(host)?.[1] ?? host.replace(/:\d+$/, "");
  return name.toLowerCase() === "localhost" || isIP(name) !== 0;
}

function hashed(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
