import type { IncomingMessage, ServerResponse } from "node:http";

/**
 * Lets pages of other origins call `/v1`, only those in `SVC_CORS_ORIGINS`. Credentials of browsers (cookies) are never
 * allowed: clients send their token.
 */
export class Cors {
  readonly #origins: ReadonlySet<string>;

  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins.map((origin) => origin.replace(/\/$/, "").toLowerCase()));
  }

  isWelcome(origin: string): boolean {
    return this.#origins.has("*") || this.#origins.has(origin.toLowerCase());
  }

  /** Adds the headers that the browser requires. True for a preflight, which is answered here. */
  handle(request: IncomingMessage, response: ServerResponse): boolean {
    const { origin } = request.headers;
    if (origin === undefined || !this.isWelcome(origin)) return false;
    const isAny = this.#origins.has("*");
    response.setHeader("access-control-allow-origin", isAny ? "*" : origin);
    response.setHeader("access-control-expose-headers", "x-request-id, request-id, retry-after, x-should-retry");
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
