import type { z } from "zod";
import type { Kind } from "../names.ts";
import type { ScopeClass } from "../scopes.ts";

/** What a route answers with a status: JSON of a schema, another type of body, or none. */
export type AnswerShape = z.ZodType | { readonly type: string | readonly string[] } | "nothing";

/**
 * A management route as everybody sees it: the server that checks requests, the tests that check answers, the OpenAPI
 * document and the reference page. `{name}` is one segment of a path, `{ref}` may hold slashes.
 */
export interface RouteShape {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly scope: ScopeClass;
  readonly tag: string;
  readonly summary: string;
  /** Absent: the query is ignored. */
  readonly query?: z.ZodObject;
  /** Absent: the route takes no body. */
  readonly body?: z.ZodType;
  /** Of a body that is a manifest: its kind. The spec's own schema says what `body` leaves open. */
  readonly manifest?: Kind;
  /** Absent: JSON. */
  readonly bodyType?: string;
  /** What `{name}` and `{id}` of the path may be; absent: any text. */
  readonly names?: z.ZodType;
  /** How failures are told; absent: as everywhere. */
  readonly errors?: "messages";
  readonly answers: Readonly<Record<number, AnswerShape>>;
}

/** What a handler is given, checked. */
export type QueryOf<S> = S extends { readonly query: infer Q extends z.ZodType } ? z.output<Q> : undefined;
export type BodyOf<S> = S extends { readonly body: infer B extends z.ZodType } ? z.output<B> : undefined;
/** What it answers; never, where that is no JSON. */
export type AnswerOf<S extends RouteShape> = {
  [K in keyof S["answers"]]: S["answers"][K] extends z.ZodType ? z.output<S["answers"][K]> : never;
}[keyof S["answers"]];
