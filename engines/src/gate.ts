import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { Refusal } from "./refusal.ts";

/**
 * Who may ask this engine. Its port is open to every program of the machine and, through a browser, to every web page:
 * the gateway alone knows the key, and no page can send what passes here.
 */
export class Gate {
  readonly #keys: readonly Buffer[];

  /** `keys`: as llama-server takes them, with commas between; undefined or empty: none is asked for. */
  constructor(keys: string | undefined) {
    this.#keys = (keys ?? "")
      .split(",")
      .map((key) => key.trim())
      .filter((key) => key !== "")
      .map(hashed);
  }

  /** Throws Refusal. `isPublic`: no key is asked for, as llama-server asks for none there. */
  check({ method, headers }: IncomingMessage, isPublic: boolean): void {
    const { host = "", origin } = headers;
    if (!isOwnHost(host)) throw new Refusal(403, "this Host is none of this machine");
    const site = headers["sec-fetch-site"] ?? "none";
    const isForeign = origin !== undefined && URL.parse(origin)?.host !== host.toLowerCase();
    if (isForeign || (site !== "none" && site !== "same-origin"))
      throw new Refusal(403, "a page of another site may not ask this engine");
    if (!isPublic && !this.#isKnown(headers.authorization)) throw new Refusal(401, "the API key is missing or wrong");
    const type = headers["content-type"]?.split(";")[0]?.trim().toLowerCase();
    // What a form can send is sent without a question, whatever page it is on.
    if (method === "POST" && type !== "application/json")
      throw new Refusal(415, "the body must be of the content type application/json");
  }

  #isKnown(authorization: string | undefined): boolean {
    if (this.#keys.length === 0) return true;
    const given = hashed(/^Bearer +(\S+)$/i.exec(authorization ?? "")?.[1] ?? "");
    return this.#keys.some((key) => timingSafeEqual(key, given));
  }
}

/** An address or `localhost`: a name that somebody else has led here says that a page asks (DNS rebinding). */
function isOwnHost(host: string): boolean {
  const name = /^\[([^\]]+)\](?::\d+)?$/.exec(host)?.[1] ?? host.replace(/:\d+$/, "");
  return name.toLowerCase() === "localhost" || isIP(name) !== 0;
}

function hashed(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
