import { z } from "zod";
import { errorTable } from "../errors.ts";
import { apiRoutes } from "./routes.ts";
import type { AnswerShape, RouteShape } from "./shape.ts";

type Json = Record<string, unknown>;

/** The management API as an OpenAPI 3.1 document, made from the route table alone. */
export function openApiDocument(version: string): { openapi: string } & Json {
  const paths: Record<string, Json> = {};
  for (const [operationId, shape] of Object.entries<RouteShape>(apiRoutes)) {
    const path = (paths[shape.path] ??= {});
    path[shape.method.toLowerCase()] = operation(operationId, shape);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Berth management API",
      version,
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
      description: "Everything that a person or a script does to Berth beyond editing a file.",
    },
    servers: [{ url: "/" }],
    tags: [...new Set(Object.values<RouteShape>(apiRoutes).map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: { token: { type: "http", scheme: "bearer", bearerFormat: "svc_<id>.<secret>" } },
      schemas: { Error: errorSchema },
      responses: {
        Error: {
          description: "What went wrong; `code` is stable",
          content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
        },
      },
    },
  };
}

const errorSchema: Json = {
  type: "object",
  required: ["error"],
  additionalProperties: false,
  properties: {
    error: {
      type: "object",
      required: ["code", "message", "type"],
      additionalProperties: false,
      properties: {
        code: { type: "string", enum: Object.keys(errorTable) },
        message: { type: "string" },
        type: { type: "string" },
        details: { type: "object" },
      },
    },
  },
};

function operation(operationId: string, shape: RouteShape): Json {
  const parameters = [...pathParameters(shape.path), ...queryParameters(shape.query)];
  return {
    operationId,
    summary: shape.summary,
    tags: [shape.tag],
    "x-berth-scope": shape.scope,
    security: shape.scope === "public" ? [] : [{ token: [] }],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(shape.body === undefined
      ? {}
      : {
          requestBody: {
            required: !shape.body.safeParse(undefined).success,
            content: { "application/json": { schema: schemaOf(shape.body, "input") } },
          },
        }),
    responses: {
      ...Object.fromEntries(Object.entries(shape.answers).map(([status, answer]) => [status, response(answer)])),
      "4XX": { $ref: "#/components/responses/Error" },
      "5XX": { $ref: "#/components/responses/Error" },
    },
  };
}

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
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

function response(answer: AnswerShape): Json {
  if (answer === "nothing") return { description: "Done" };
  if ("safeParse" in answer)
    return { description: "Done", content: { "application/json": { schema: schemaOf(answer, "output") } } };
  return { description: "Done", content: { [answer.type]: { schema: { type: "string" } } } };
}

function schemaOf(schema: z.ZodType, io: "input" | "output"): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" });
  return rest;
}
