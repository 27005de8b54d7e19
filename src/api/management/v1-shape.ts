import { z } from "zod";
import type { RouteShape } from "./shape.ts";

/** What is to be said of a route that asks an engine: bodies are the engine's and the protocol's, checked there. */
export interface V1About {
  readonly summary: string;
  /** Absent: it has no body. */
  readonly takes?: "application/json" | "multipart/form-data";
  readonly gives: string;
}

/** The route as the OpenAPI document and the reference page show it. */
export function v1Shape({ method, path, about }: { method: "GET" | "POST"; path: string; about: V1About }): RouteShape {
  const { summary, takes, gives } = about;
  return {
    method,
    path,
    scope: "v1",
    tag: "v1",
    summary,
    ...(takes === undefined ? {} : { body: v1Body, bodyType: takes }),
    answers: { 200: { type: gives } },
  };
}

const v1Body = z.looseObject({ model: z.string().describe("A slot, <slot>:<ref>, a ref or a provider's model") });
