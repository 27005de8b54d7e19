import { z } from "zod";
import type { RouteShape } from "./shape.ts";

/** What is to be said of a route that asks an engine: bodies are the engine's and the protocol's, checked there. */
export interface V1About {
  readonly summary: string;
  /** Absent: it has no body. */
  readonly takes?: "application/json" | "multipart/form-data";
  /** One type, or several where the request says which. */
  readonly gives: string | readonly string[];
  readonly errors?: "messages";
}

/** The route as the OpenAPI document and the reference page show it. */
export function v1Shape({ method, path, about }: { method: "GET" | "POST"; path: string; about: V1About }): RouteShape {
  const { summary, takes, gives, errors } = about;
  return {
    method,
    path,
    scope: "v1",
    tag: "v1",
    summary,
    ...(takes === undefined ? {} : { body: takes === "application/json" ? v1Body : upload, bodyType: takes }),
    ...(errors === undefined ? {} : { errors }),
    answers: { 200: { type: gives } },
  };
}

const model = z.string().min(1).describe("A slot, <slot>:<ref>, a ref or a provider's model");
const v1Body = z.looseObject({ model });
const upload = z.looseObject({
  model,
  file: z.string().meta({ format: "binary" }).describe("The recording"),
  response_format: z.enum(["json", "text", "srt", "verbose_json", "vtt"]).optional(),
  temperature: z.number().min(0).max(1).optional(),
  stream: z.boolean().optional(),
});
