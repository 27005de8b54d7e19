import type { FastifyInstance, FastifyRequest } from "fastify";
import { publicPaths, scopeClasses, type Identity, type ScopeClass } from "../../api/scopes.ts";
import type { RouteKind } from "../http/hosts.ts";
import type { Gate } from "./gate.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** The scope class of the route; a route without it stops the start. */
    scope?: ScopeClass;
    /** The path of the route for people, where the router's spelling differs. */
    template?: string;
  }
  interface FastifyRequest {
    /** The caller; set before any handler runs. */
    identity: Identity | undefined;
  }
}

const headers = {
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'; form-action 'none'",
  "cross-origin-resource-policy": "same-origin",
} as const;
/** Conversations, logs and settings must not outlive the tab in the browser's cache on disk. */
const apiHeaders = { ...headers, "cache-control": "no-store" } as const;
/** No answer below `/v1` is a page, not even by mistake. */
const v1Headers = { ...headers, "content-security-policy": `${headers["content-security-policy"]}; sandbox` } as const;

/** A route as the scope matrix lists it. */
export interface GuardedRoute {
  readonly method: string;
  readonly path: string;
  readonly scope: ScopeClass;
  readonly template?: string | undefined;
}

/**
 * Every route passes the gate before its body is read, and a route without a scope class throws here, at the start. An
 * unknown path below `/api`, `/v1` and `/models` needs credentials: a stranger learns no paths. Returns the routes, as they are
 * added.
 */
export function guardRoutes(app: FastifyInstance, gate: Gate): readonly GuardedRoute[] {
  const routes: GuardedRoute[] = [];
  app.addHook("onRoute", ({ method, url, config }) => {
    const scope = config?.scope;
    if (scope === undefined || !scopeClasses.includes(scope))
      throw new Error(`route ${String(method)} ${url} names no scope class`);
    for (const each of [method].flat()) {
      routes.push({ method: each, path: url, scope, template: config?.template });
    }
  });
  app.decorateRequest("identity", undefined);
  app.addHook("onRequest", async (request, reply) => {
    const kind = kindOf(request);
    void reply.headers({ ...headersOf(kind), "x-request-id": request.id });
    request.identity = gate.admit(request.raw, scopeOf(app, request), kind);
  });
  return routes;
}

function headersOf(kind: RouteKind): typeof headers | typeof apiHeaders | typeof v1Headers {
  if (kind === "api") return apiHeaders;
  return kind === "v1" || kind === "router" ? v1Headers : headers;
}

function scopeOf(app: FastifyInstance, request: FastifyRequest): ScopeClass {
  const { scope } = request.routeOptions.config;
  if (scope !== undefined) return scope;
  const path = request.url.split("?", 1)[0] ?? "";
  const open: readonly string[] = publicPaths;
  // A wrong method on a known path discloses no more than the right method does.
  const isKnown = open.includes(path) || app.findRoute({ method: "GET", url: path }) !== null;
  return isKnown || kindOf(request) === "other" ? "public" : "any";
}

/** By the route that the router found, not by the spelling of the address: `/%61pi/slots` is `/api/slots`. */
function kindOf(request: FastifyRequest): RouteKind {
  const url = request.routeOptions.url ?? request.url;
  // Answers of /v1 lead to these pictures: a program that may call the one may fetch the other.
  if (url.startsWith("/api/images/cache/")) return "v1";
  if (/^\/api(?:\/|$)/.test(url) || url === "/") return "api";
  if (/^\/models(?:\/|$)/.test(url)) return "router";
  return /^\/(?:v1|props)(?:\/|$)/.test(url) ? "v1" : "other";
}
