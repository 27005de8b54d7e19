import type { z } from "zod";
import type { ApiRoutes } from "./routes.ts";
import type { AnswerOf, RouteShape } from "./shape.ts";

/**
 * The management API as its clients call it: a route is named as `GET /api/slots/{name}`, and the types of its
 * parameters, body and answer follow from the table of routes. This file has no schema as a value: a page that imports
 * it carries no schema library.
 */
type Routes = { [K in keyof ApiRoutes as `${ApiRoutes[K]["method"]} ${ApiRoutes[K]["path"]}`]: ApiRoutes[K] };
export type RouteName = keyof Routes;

type NameIn<Path> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | NameIn<Rest> : never;
type ParamsOf<S extends RouteShape> = [NameIn<S["path"]>] extends [never]
  ? unknown
  : { readonly params: Readonly<Record<NameIn<S["path"]>, string>> };

/** A value that the route reads from text, such as a number of seconds, has an unknown input in its schema. */
type QueryValue<T> = unknown extends T ? number | undefined : T | undefined;
type Query<T> = { readonly [K in keyof T]: QueryValue<T[K]> };
type QueryIn<S> = S extends { readonly query: infer Q extends z.ZodType }
  ? object extends z.input<Q>
    ? { readonly query?: Query<z.input<Q>> }
    : { readonly query: Query<z.input<Q>> }
  : unknown;

/** JSON that nobody changes. */
export type Fixed<T> = T extends readonly (infer Item)[]
  ? readonly Fixed<Item>[]
  : T extends object
    ? { readonly [K in keyof T]: Fixed<T[K]> }
    : T;
/** The service itself checks a manifest's fields. */
type Sent<S, B extends z.ZodType> = S extends { readonly manifest: string } ? object : Fixed<z.input<B>>;
type BodyIn<S> = S extends { readonly body: infer B extends z.ZodType }
  ? undefined extends z.input<B>
    ? { readonly body?: Sent<S, B> }
    : { readonly body: Sent<S, B> }
  : unknown;

/** The values of a call: `params` of the path, `query` and `body`, as far as the route has them. */
type CallOf<N extends RouteName> = ParamsOf<Routes[N]> & QueryIn<Routes[N]> & BodyIn<Routes[N]>;
/**
 * `CallOf` as the last argument of a function, which may be absent where nothing in it is required. `More`: options of
 * the caller's own.
 */
export type CallArgument<N extends RouteName, More = unknown> =
  Partial<CallOf<N>> extends CallOf<N> ? [call?: CallOf<N> & More] : [call: CallOf<N> & More];
/** The JSON of the route's answer; undefined for a route that answers nothing. */
export type AnswerTo<N extends RouteName> = [AnswerOf<Routes[N]>] extends [never] ? undefined : AnswerOf<Routes[N]>;
/** Routes that answer a list, and its items. */
export type ItemOf<N extends RouteName> =
  AnswerTo<N> extends { readonly object: "list"; readonly data: readonly (infer Item)[] } ? Item : never;
export type ListName = { [N in RouteName]: [ItemOf<N>] extends [never] ? never : N }[RouteName];

/** Routes that answer nothing. */
export type SilentName = { [N in RouteName]: AnswerTo<N> extends undefined ? N : never }[RouteName];

/** A name that no path can carry: URLs drop the parts `.` and `..`, also as `%2e`, and the request would reach another route. */
export class UnsendableName extends Error {
  override readonly name = "UnsendableName";
}

/** The parts of a call as `requestOf` reads them, for any route. */
export interface AnyCall {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: unknown;
}

/** The method and the path of a call. The slashes of a `{ref}` stay where no part of it leads elsewhere. Throws UnsendableName. */
export function requestOf(
  route: RouteName,
  { params = {}, query = {} }: AnyCall = {},
): { method: string; path: string } {
  const [method = "", template = ""] = route.split(" ");
  const path = template.replaceAll(/\{(\w+)\}/g, (_all, key: string) => {
    const name = params[key] ?? "";
    if (isDots(name)) throw new UnsendableName(`nothing can be called ${name}`);
    const parts = name.split("/");
    return key === "ref" && !parts.some(isDots) ? parts.map(encodeURIComponent).join("/") : encodeURIComponent(name);
  });
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined) search.set(key, String(value));
  return { method, path: search.size === 0 ? path : `${path}?${search.toString()}` };
}

function isDots(part: string): boolean {
  return part === "." || part === "..";
}
