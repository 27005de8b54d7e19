import type { z } from "zod";
import type { Kind } from "../names.ts";
import type { ScopeClass } from "../scopes.ts";

/** The body of an answer by its status: JSON of a schema, another content type, or none. */
export type AnswerShape = z.ZodType | { readonly type: string | readonly string[] } | "nothing";

/**
 * A management route as data: for the server that checks requests, the tests that check answers, the OpenAPI document
 * and the reference page. `{name}` is one segment of a path, `{ref}` may hold slashes.
 */
export interface RouteShape {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly scope: ScopeClass;
  readonly tag: string;
  readonly summary: string;
  /** Stands below the summary in the OpenAPI document. */
  readonly description?: string;
  /** Absent: the query is ignored. */
  readonly query?: z.ZodObject;
  /** Absent: the route takes no body. */
  readonly body?: z.ZodType;
  /** The body is large: its handler gets its bytes, and has them checked on another thread. */
  readonly isHeavy?: true;
  /** Largest body; absent: 1 MiB. */
  readonly bodyLimitBytes?: number;
  /** The kind of manifest that the body is. The spec's own schema checks the fields that `body` leaves open. */
  readonly manifest?: Kind;
  /** Absent: JSON. */
  readonly bodyType?: string;
  /** The schema of `{name}` and `{id}` in the path; absent: any text. */
  readonly names?: z.ZodType;
  /** The form of failures; absent: Berth's envelope. */
  readonly errors?: "messages";
  readonly answers: Readonly<Record<number, AnswerShape>>;
}

/** The checked input of a handler. */
export type QueryOf<S> = S extends { readonly query: infer Q extends z.ZodType } ? z.output<Q> : undefined;
export type BodyOf<S> = S extends { readonly isHeavy: true } ? Uint8Array : CheckedBodyOf<S>;
type CheckedBodyOf<S> = S extends { readonly body: infer B extends z.ZodType } ? z.output<B> : undefined;
/** The JSON that a handler returns; never, for another content type. */
export type AnswerOf<S extends RouteShape> = {
  [K in keyof S["answers"]]: S["answers"][K] extends z.ZodType ? z.output<S["answers"][K]> : never;
}[keyof S["answers"]];
