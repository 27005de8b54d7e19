import { z } from "zod";
import type { Config } from "../config.ts";
import { apiRoutes } from "./routes.ts";
import { ComponentSchemas, plain } from "./schemas.ts";
import type { AnswerShape, RouteShape } from "./shape.ts";

type Json = Record<string, unknown>;

/**
 * The whole API as an OpenAPI 3.1 document, made from the route tables alone: management, and the given routes of
 * `/v1`. It declares credentials only where `authEnabled`: else generated clients would require credentials from their
 * users without need.
 */
export function openApiDocument(
  version: string,
  v1: readonly RouteShape[],
  { authEnabled: isProtected, basePath }: Pick<Config, "authEnabled" | "basePath">,
): { openapi: string } & Json {
  const paths: Record<string, Json> = {};
  const components = new ComponentSchemas();
  const named = v1.map((shape): [string, RouteShape] => [shape.path.replaceAll(/\W+/g, "_").slice(1), shape]);
  const routes = [...Object.entries<RouteShape>(apiRoutes), ...named];
  for (const [operationId, shape] of routes) {
    const path = (paths[shape.path] ??= {});
    path[shape.method.toLowerCase()] = operation(operationId, shape, components, isProtected);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Berth",
      version,
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
      description:
        "Models as OpenAI has them below /v1; below /api everything that is done to Berth beyond editing a file.",
    },
    servers: [{ url: basePath || "/" }],
    tags: [...new Set(routes.map(([, { tag }]) => tag))].map((name) => ({ name })),
    paths,
    components: {
      ...(isProtected
        ? { securitySchemes: { token: { type: "http", scheme: "bearer", bearerFormat: "svc_<id>.<secret>" } } }
        : {}),
      schemas: components.schemas,
      responses: { Error: errorResponse("Error"), MessagesError: errorResponse("MessagesError") },
    },
  };
}

function errorResponse(schema: string): Json {
  return {
    description: "A failure; `code` is stable",
    content: { "application/json": { schema: { $ref: `#/components/schemas/${schema}` } } },
  };
}

function operation(operationId: string, shape: RouteShape, components: ComponentSchemas, isProtected: boolean): Json {
  const answered = Object.entries(shape.answers).map(([status, answer]): [string, Json] => [
    status,
    response(answer, (schema) => components.of(schema, "output", `${operationId}_${status}`)),
  ]);
  const failure = { $ref: `#/components/responses/${shape.errors === "messages" ? "MessagesError" : "Error"}` };
  const parameters = [...pathParameters(shape), ...queryParameters(shape.query)];
  return {
    operationId,
    summary: shape.summary,
    ...(shape.description === undefined ? {} : { description: shape.description }),
    tags: [shape.tag],
    "x-berth-scope": shape.scope,
    ...(isProtected ? { security: shape.scope === "public" ? [] : [{ token: [] }] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(shape.body === undefined
      ? {}
      : {
          requestBody: {
            required: !shape.body.safeParse(undefined).success,
            content: {
              [shape.bodyType ?? "application/json"]: {
                schema:
                  shape.manifest === undefined
                    ? components.of(shape.body, "input", `${operationId}_body`)
                    : components.manifestBody(shape.manifest, shape.method === "POST"),
              },
            },
          },
        }),
    responses: {
      ...Object.fromEntries(answered),
      "4XX": failure,
      "5XX": failure,
    },
  };
}

function pathParameters({ path, names }: RouteShape): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => ({
    name,
    in: "path",
    required: true,
    schema: name === "ref" || names === undefined ? { type: "string", minLength: 1 } : plain(names),
    ...(name === "ref" ? { description: "May hold slashes and colons" } : {}),
  }));
}

function queryParameters(query: RouteShape["query"]): Json[] {
  if (query === undefined) return [];
  const { properties, required } = z.toJSONSchema(query, { io: "input" });
  return Object.entries(properties ?? {}).map(([name, schema]) => ({
    name,
    in: "query",
    required: required?.includes(name) === true,
    schema,
  }));
}

function response(answer: AnswerShape, written: (schema: z.ZodType) => Json): Json {
  if (answer === "nothing") return { description: "Done" };
  if ("safeParse" in answer)
    return { description: "Done", content: { "application/json": { schema: written(answer) } } };
  const contents = [answer.type].flat().map((type) => [type, { schema: bodyOf(type) }] as const);
  return { description: "Done", content: Object.fromEntries(contents) };
}

/** TEI's rankings are a list; every other JSON answer is an object. */
function bodyOf(type: string): Json {
  return type === "application/json" ? { type: ["object", "array"] } : { type: "string" };
}
