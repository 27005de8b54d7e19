import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { ApiError } from "../api/errors.ts";
import { createServer } from "../lib/node-http.ts";
import { didYouMean } from "../api/nearest.ts";
import { allowedMethods, methodNotAllowed } from "./http/allowed-methods.ts";
import { requestIdOf, sendError } from "./http/answer.ts";
import type { Gate } from "./auth/gate.ts";
import { guardRoutes, type GuardedRoute } from "./auth/hook.ts";
import { discard } from "./http/body.ts";
import type { ChatAddress } from "./http/chat-address.ts";
import type { Cors } from "./http/cors.ts";
import type { ConnectionLimiter } from "./http/connection-limit.ts";
import { managementFailure } from "./http/disk-failure.ts";
import type { ModelProxy } from "./proxy/handle.ts";
import { takeJsonOnly } from "./http/json-bodies.ts";
import { arrivalTimes, headerLimitBytes, refuseBytes } from "./http/refused-bytes.ts";
import type { ManagementContext } from "./management/context.ts";
import { registerRoutes } from "./management/routes.ts";
import { leadToEnginePages } from "./open-engine-pages.ts";
import { servePages, type ServedPages } from "./pages/pages.ts";
import type { Logger } from "pino";
import type { BufferBudget } from "./slots/budget.ts";
import type { V1Route } from "./v1/route.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** The error that answers the request; undefined: none. */
    failure: ApiError | undefined;
  }
}

export interface AppOptions {
  readonly proxy: ModelProxy;
  readonly v1Routes: readonly V1Route[];
  readonly management: ManagementContext;
  /** In tests: an answer that violates its schema is an error. */
  readonly isStrict: boolean;
  readonly gate: Gate;
  readonly chat: ChatAddress;
  /** The directory of the built pages; undefined: no page is served. */
  readonly pages: string | undefined;
  /** SVC_CORS_ORIGINS. */
  readonly cors: Cors;
  readonly bodyLimitBytes: number;
  readonly budget: BufferBudget;
  readonly connections: ConnectionLimiter;
  readonly log: Logger;
}

export interface App {
  readonly fastify: FastifyInstance;
  readonly server: Server;
  /** Every route, with its scope class. */
  readonly routes: readonly GuardedRoute[];
}

/**
 * The HTTP server. Fastify routes everything but the hot routes, which use the same ids, errors and metrics without the
 * framework's per-request objects.
 */
export async function buildApp(options: AppOptions): Promise<App> {
  const hot = new Map<string, V1Route>(
    options.v1Routes.flatMap((route) => [route.path, ...route.aliasPaths].map((path) => [path, route] as const)),
  );
  let server: Server | undefined;
  let pages: ServedPages | undefined;
  const app = fastify({
    logger: false,
    genReqId: (request) => requestIdOf(request),
    requestIdHeader: false,
    rewriteUrl: (request) => withoutOrigin(request.url ?? "/"),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 300 },
    exposeHeadRoutes: true,
    schemaController: { compilersFactory: noSchemas },
    // A path that the router cannot parse, such as one with a broken escape.
    frameworkErrors: (problem, request, reply) => {
      const refuseUnread = (error: unknown): void => {
        const failure = fromFramework(error);
        reply.hijack();
        sendError(reply.raw, failure, request.id);
        recordUnrouted(options.proxy, hot, { request, reply, failure });
      };
      if (pages === undefined) refuseUnread(problem);
      else
        pages.sendUnread(request, reply).then((isSent) => (isSent ? undefined : refuseUnread(problem)), refuseUnread);
    },
    serverFactory: (handler) => {
      const listener = hotFirst(hot, options, handler);
      server = createServer(
        {
          ...arrivalTimes,
          keepAliveTimeout: 65_000,
          requireHostHeader: false,
          maxHeaderSize: headerLimitBytes,
        },
        listener,
      );
      options.connections.watch(server);
      server.on("checkContinue", (request, response) => {
        // A body that is refused by its length alone need not be sent.
        if (Number(request.headers["content-length"] ?? 0) <= options.bodyLimitBytes) response.writeContinue();
        listener(request, response);
      });
      server.on("checkExpectation", (request, response) => {
        const failure = new ApiError("dispatch.invalid_request", { message: "the expectation cannot be met" });
        sendError(response, failure, requestIdOf(request));
      });
      // While it listens; before, the framework reports the error.
      server.on("error", (error) => {
        if (server?.listening === true) options.log.warn({ err: error }, "a connection could not be accepted");
      });
      server.on("clientError", (error: Error & { code?: string }, socket) => refuseBytes(error, socket));
      return server;
    },
  });
  // By default the framework requires a body's type for this method before it checks whether a route accepts the method
  // at all.
  app.addHttpMethod("QUERY", { hasBody: false, overrideExisting: true });
  takeJsonOnly(app, options.budget);
  const guarded = guardRoutes(app, options.gate);
  const hotOnes = [...hot].map(([path, { method }]) => ({ method, path, scope: "v1" as const }));
  app.decorateRequest("failure", undefined);
  app.setErrorHandler((error, request, reply) => {
    const failure = fromFramework(error);
    if (failure.code === "system.internal") options.log.error({ err: error, requestId: request.id }, "request failed");
    request.failure = failure;
    if (!request.raw.complete) {
      discard(request.raw);
      // The framework closes the connection where a body could not be read; its sender would lose the answer.
      reply.removeHeader("connection");
    }
    void reply.code(failure.status).headers(failure.headers).send(failure.envelope());
  });
  // Before a body is read.
  app.addHook("onRequest", (request, _reply, done) => {
    done(request.is404 ? notFound([...hotOnes, ...guarded], request.method, request.url) : undefined);
  });
  app.addHook("onResponse", (request, reply, done) => {
    const { failure } = request;
    if (request.is404 && failure !== undefined) recordUnrouted(options.proxy, hot, { request, reply, failure });
    done();
  });
  registerRoutes(app, options.management, { isStrict: options.isStrict });
  if (options.pages !== undefined) pages = servePages(app, options.pages, options.management.config.basePath);
  leadToEnginePages(app, options.management.config);
  await app.ready();
  if (server === undefined) throw new Error("the framework made no server");
  return { fastify: app, server, routes: [...hotOnes, ...guarded] };
}

/** Routes are checked by their own zod schemas; the framework's two compilers would be loaded without use. */
const noSchemas = { buildValidator: noCompiler, buildSerializer: noCompiler };

function noCompiler(): never {
  throw new Error("a route has a schema for the framework, which has no compiler for it");
}

function hotFirst(
  hot: ReadonlyMap<string, V1Route>,
  { proxy, cors, chat, connections, management }: AppOptions,
  handler: RequestListener,
): RequestListener {
  return (request: IncomingMessage, response: ServerResponse) => {
    const refusal = connections.refusal(request.socket);
    if (refusal !== undefined) {
      sendError(response, refusal, requestIdOf(request));
      discard(request);
      return;
    }
    if (request.headers.host === undefined && request.httpVersionMinor === 1) {
      const failure = new ApiError("dispatch.invalid_request", { message: "the request names no host" });
      sendError(response, failure, requestIdOf(request));
      return;
    }
    // The route and its scope are decided on this address alone.
    request.url = withoutBase(request.url ?? "/", management.config.basePath);
    request.url = chat.rewrite(request);
    const path = pathOf(request.url);
    const route = hot.get(path);
    if (request.headers.origin !== undefined && (route !== undefined || path.startsWith("/v1/"))) {
      if (cors.handle(request, response)) return;
    }
    if (route === undefined || route.method !== request.method) {
      handler(request, response);
      return;
    }
    const id = requestIdOf(request);
    void proxy.handle(route, request, response, id);
  };
}

/**
 * Counts and logs a refused request that asked with another method than its route has, or below `/v1` for no route. Its path
 * may be any text: it is neither logged nor a label.
 */
function recordUnrouted(
  proxy: ModelProxy,
  hot: ReadonlyMap<string, V1Route>,
  { request, reply, failure }: { request: FastifyRequest; reply: FastifyReply; failure: ApiError },
): void {
  const asked = pathOf(request.url);
  const path = hot.get(asked)?.path ?? (/^\/+v1(?:\/|$)/.test(asked) ? "/v1/*" : undefined);
  if (path === undefined) return;
  proxy.recordUnrouted({ requestId: request.id, path, seconds: reply.elapsedTime / 1000 }, failure);
}

/** Without query, trailing slash and, for proxies' absolute form, scheme and host. */
function pathOf(url: string): string {
  let path = withoutOrigin(url);
  const query = path.indexOf("?");
  if (query >= 0) path = path.slice(0, query);
  return path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
}

/** Removes the path below which a proxy asks for everything, such as `/berth`. */
function withoutBase(url: string, basePath: string): string {
  if (basePath === "") return url;
  const own = withoutOrigin(url);
  return own.startsWith(`${basePath}/`) ? own.slice(basePath.length) : url;
}

function withoutOrigin(url: string): string {
  if (url.startsWith("/")) return url;
  const rest = url.replace(/^https?:\/\/[^/?]*/i, "");
  return rest.startsWith("/") ? rest : `/${rest}`;
}

function fromFramework(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof Error && "statusCode" in error && typeof error.statusCode === "number") {
    if (error.statusCode === 413) return new ApiError("dispatch.payload_too_large");
    if (error.statusCode === 415) return new ApiError("dispatch.unsupported_media_type");
    if (error.statusCode >= 400 && error.statusCode < 500)
      return new ApiError("dispatch.invalid_request", { message: error.message });
  }
  return managementFailure(error, "do this");
}

function notFound(routes: readonly GuardedRoute[], method: string, url: string): ApiError {
  const path = pathOf(url);
  const allowed = allowedMethods(routes, path);
  if (allowed.length > 0 && !allowed.includes(method)) return methodNotAllowed(path, allowed);
  // A base URL with one `/v1` too many or too few, or with a slash at its end.
  const tail = path.replaceAll(/\/{2,}/g, "/").replace(/^(\/v1(?=\/))+/, "");
  const meant = [`/v1${tail}`, tail].find((each) => allowedMethods(routes, each).length > 0);
  const message = `there is nothing at ${path.slice(0, 200)}${didYouMean(meant)}`;
  return new ApiError("system.not_found", { message });
}
