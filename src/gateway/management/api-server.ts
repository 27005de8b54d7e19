import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { allowedMethods, methodNotAllowed } from "../http/allowed-methods.ts";
import { ApiError } from "../../api/errors.ts";
import { apiRoutes, type ApiRoutes } from "../../api/management/routes.ts";
import type { AnswerOf, AnswerShape, BodyOf, QueryOf, RouteShape } from "../../api/management/shape.ts";
import { invalidRequest, problemsOf } from "../../api/problems.ts";
import { isRecord } from "../../lib/record.ts";
import { z } from "zod";

/** One request, checked against its route's shape. */
export interface ApiRequest<S extends RouteShape> {
  readonly params: Readonly<Record<string, string>>;
  readonly query: QueryOf<S>;
  readonly body: BodyOf<S>;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** Returns the answer of its shape, or a reply that it has sent itself. */
export type Handler<S extends RouteShape> = (
  request: ApiRequest<S>,
) => AnswerOf<S> | FastifyReply | Promise<AnswerOf<S> | FastifyReply>;

/** A handler for every route; the handlers of one subject are a part of it. */
export type Handlers = { readonly [K in keyof ApiRoutes]: Handler<ApiRoutes[K]> };

export interface ApiServerOptions {
  readonly routes: ApiRoutes;
  readonly handlers: Handlers;
  /** In tests: an answer that violates its schema is an error. */
  readonly isStrict: boolean;
}

/** Registers every management route with its scope class, and checks each request. */
export function serveApi(app: FastifyInstance, { routes, handlers, isStrict }: ApiServerOptions): void {
  const serve = <K extends keyof ApiRoutes>(name: K, handler: Handlers[K]): void => {
    serveRoute(app, routes[name], handler, isStrict);
  };
  let name: keyof ApiRoutes;
  for (name in routes) serve(name, handlers[name]);
}

function serveRoute<S extends RouteShape>(
  app: FastifyInstance,
  shape: S,
  handler: Handler<S>,
  isStrict: boolean,
): void {
  const match = matcherOf(shape.path);
  const statuses = Object.keys(shape.answers).map(Number);
  const [status = 200] = statuses;
  app.route({
    method: shape.method,
    url: match.url,
    config: { scope: shape.scope, template: shape.path, takesBytes: shape.isHeavy === true },
    ...(shape.bodyLimitBytes === undefined ? {} : { bodyLimit: shape.bodyLimitBytes }),
    // A HEAD request could never end for an endless stream.
    exposeHeadRoute: shape.method === "GET" && !isEvents(shape),
    handler: async (request, reply) => {
      if (shape.path.includes("{ref}")) refuseOther(request);
      const params = match.params(request);
      const query: QueryOf<S> = checked(shape.query, request.query, "the query");
      if (shape.body === undefined) refuseBody(request.body);
      const body: BodyOf<S> = checked(shape.isHeavy === true ? bytesSchema : shape.body, request.body, "the body");
      void reply.code(status);
      const answer = await handler({ params, query, body, request, reply });
      if (reply.sent || answer === reply) return reply;
      if (isStrict) checkAnswer(shape, reply.statusCode, answer);
      return await reply.send(answer);
    },
  });
}

/**
 * A ref may be any text except the path of another route, with any method: such a ref is sent with `%2F`. Throws
 * `system.method_not_allowed`.
 */
function refuseOther({ url, method }: FastifyRequest): void {
  const [path = ""] = url.split("?", 1);
  const allowed = allowedMethods(exactRoutes, path);
  if (allowed.length > 0 && !allowed.includes(method)) throw methodNotAllowed(path, allowed);
}

/** Routes without a parameter at the end, with all their methods. */
const exactRoutes = Object.values(apiRoutes).flatMap(({ method, path }) => {
  if (path.endsWith("}")) return [];
  return (method === "GET" ? ["GET", "HEAD"] : [method]).map((each) => ({ method: each, path }));
});

/** An ignored body would seem accepted; some clients send `{}` for nothing. */
function refuseBody(body: unknown): void {
  if (body === undefined || (isRecord(body) && Object.keys(body).length === 0)) return;
  throw invalidRequest([
    { path: isRecord(body) ? Object.keys(body).slice(0, 1) : [], message: "this route accepts no body" },
  ]);
}

function isEvents({ answers }: RouteShape): boolean {
  return Object.values(answers).some(
    (answer) => answer !== "nothing" && !("safeParse" in answer) && [answer.type].flat().includes("text/event-stream"),
  );
}

/** `{ref}` may hold slashes, which routers match only at the end of a path: the text after it is compared here. */
function matcherOf(path: string): { url: string; params: (request: FastifyRequest) => Record<string, string> } {
  const refAt = path.indexOf("{ref}");
  const before = refAt < 0 ? path : path.slice(0, refAt);
  const suffix = refAt < 0 ? "" : path.slice(refAt + "{ref}".length);
  return {
    url: `${before.replaceAll(/\{(\w+)\}/g, ":$1")}${refAt < 0 ? "" : "*"}`,
    params(request) {
      const params = textsOf(request.params);
      if (refAt < 0) return params;
      const rest = params["*"] ?? "";
      if (!rest.endsWith(suffix) || rest.length === suffix.length) {
        // Only mutating routes have a path after the ref, so a readable path is also a removable one.
        throw new ApiError("system.method_not_allowed", {
          message: `${request.url.slice(0, 200)} takes DELETE, GET, HEAD`,
          headers: { allow: "DELETE, GET, HEAD" },
        });
      }
      return { ...params, ref: rest.slice(0, rest.length - suffix.length) };
    },
  };
}

function textsOf(params: unknown): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [key, value] of Object.entries(params ?? {})) if (typeof value === "string") texts[key] = value;
  return texts;
}

const bytesSchema = z.instanceof(Buffer);

/** `never` stands for the schema's type: only the caller can name it. */
function checked(schema: RouteShape["body"], value: unknown, what: string): never;
function checked(schema: RouteShape["body"], value: unknown, what: string): unknown {
  if (schema === undefined) return undefined;
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = problemsOf(parsed.error, schema);
  if (value === undefined) problems.splice(0, problems.length, { path: [], message: `${what} is missing` });
  throw invalidRequest(problems);
}

function checkAnswer(shape: RouteShape, status: number, answer: unknown): void {
  const promised: AnswerShape | undefined = shape.answers[status];
  if (promised === undefined) throw new Error(`${shape.method} ${shape.path} promises no ${status}`);
  if (promised === "nothing" || !("safeParse" in promised)) return;
  const parsed = promised.safeParse(answer);
  if (!parsed.success) throw new Error(`${shape.method} ${shape.path} broke its promise: ${parsed.error.message}`);
}
