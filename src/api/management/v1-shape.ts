import { z } from "zod";
import type { RouteShape } from "./shape.ts";

/**
 * The description of a route that an engine answers: bodies belong to the engine and the protocol, and are checked
 * there.
 */
export interface V1About {
  readonly summary: string;
  /** Absent: the route has no body. */
  readonly takes?: "application/json" | "multipart/form-data";
  /** One content type, or several where the request chooses. */
  readonly gives: string | readonly string[];
  readonly errors?: "messages";
  /** The field of a JSON body with the main input, and its allowed kinds. */
  readonly inputRule?:
    { readonly field: string; readonly kinds: readonly Kind[]; readonly isRequired: boolean } | undefined;
}

const kinds = {
  text: z.string().regex(/\S/),
  list: z.array(z.unknown()),
  map: z.record(z.string(), z.unknown()),
} as const;
type Kind = keyof typeof kinds;

/** The route as the OpenAPI document and the reference page show it. */
export function v1Shape({ method, path, about }: { method: "GET" | "POST"; path: string; about: V1About }): RouteShape {
  const { summary, takes, gives, errors, inputRule } = about;
  return {
    method,
    path,
    scope: "v1",
    tag: "v1",
    summary,
    ...(takes === undefined
      ? {}
      : { body: takes === "application/json" ? bodyOf(inputRule, gives) : upload, bodyType: takes }),
    ...(errors === undefined ? {} : { errors }),
    answers: { 200: { type: gives } },
  };
}

const model = z.string().min(1).describe("A slot, <slot>:<ref>, a ref or a provider's model");
function bodyOf(inputRule: V1About["inputRule"], gives: V1About["gives"]): z.ZodObject {
  const streams = [gives].flat().includes("application/json") && [gives].flat().includes("text/event-stream");
  const stream = streams ? { stream: z.boolean().nullish() } : {};
  if (inputRule === undefined) return z.looseObject({ model, ...stream });
  const field = z.union(inputRule.kinds.map((kind) => kinds[kind]));
  return z.looseObject({ model, ...stream, [inputRule.field]: inputRule.isRequired ? field : field.optional() });
}
const upload = z
  .looseObject({
    model,
    file: z.string().meta({ format: "binary" }).describe("The recording"),
    response_format: z.enum(["json", "text", "srt", "verbose_json", "vtt"]).optional(),
    temperature: z.number().min(0).max(1).optional(),
    stream: z.boolean().optional().describe("Only where response_format is json"),
  })
  .meta({
    anyOf: [{ properties: { stream: { const: false } } }, { properties: { response_format: { const: "json" } } }],
  });
