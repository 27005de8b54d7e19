import type { IncomingMessage, ServerResponse } from "node:http";

/**
 * Lets pages of other origins call `/v1`, only those in `SVC_CORS_ORIGINS`, where `*` stands for a part of an origin.
 * Credentials of browsers (cookies) are never allowed: clients send their token.
 */
export class Cors {
  readonly #origins: ReadonlySet<string>;
  readonly #patterns: readonly RegExp[];

  constructor(origins: readonly string[]) {
    const all = origins.map((origin) => origin.replace(/\/$/, "").toLowerCase());
    this.#origins = new Set(all);
    this.#patterns = all.filter((origin) => origin.includes("*") && origin !== "*").map(patternOf);
  }

  isWelcome(origin: string): boolean {
    const name = origin.toLowerCase();
    return this.#origins.has("*") || this.#origins.has(name) || this.#patterns.some((pattern) => pattern.test(name));
  }

  /** Adds the headers that the browser requires. True for a preflight, which is answered here. */
  handle(request: IncomingMessage, response: ServerResponse): boolean {
    const { origin } = request.headers;
    if (origin === undefined || !this.isWelcome(origin)) return false;
    const isAny = this.#origins.has("*");
    response.setHeader("access-control-allow-origin", isAny ? "*" : origin);
    response.setHeader(
      "access-control-expose-headers",
      "x-request-id, request-id, retry-after, x-should-retry, x-berth-left-out",
    );
    if (!isAny) response.setHeader("vary", "origin");
    if (request.method !== "OPTIONS" || request.headers["access-control-request-method"] === undefined) return false;
    const wanted = request.headers["access-control-request-headers"];
    response.writeHead(204, {
      "x-content-type-options": "nosniff",
      "content-security-policy": "sandbox",
      "access-control-allow-methods": "GET, HEAD, POST, OPTIONS",
      // SDKs send their own headers, which change with every release. A proxy's word is no page's to give.
      "access-control-allow-headers": wanted?.replaceAll(/\bx-forwarded-[\w-]+/gi, "") ?? "authorization, content-type",
      "access-control-max-age": "600",
    });
    response.end();
    return true;
  }
}

/** `*` for a port is any digits, elsewhere one or more labels: it reaches neither past the name nor into the port. */
function patternOf(origin: string): RegExp {
  const [name, port] = origin.endsWith(":*") ? [origin.slice(0, -1), String.raw`\d{1,5}`] : [origin, ""];
  const parts = name.split("*").map((text) => RegExp.escape(text));
  return new RegExp(`^${parts.join("[a-z0-9.-]+")}${port}$`);
}
