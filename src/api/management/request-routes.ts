import { z } from "zod";
import type { RouteShape } from "./shape.ts";
import { trafficViewSchema } from "./traffic-view.ts";

const ms = z.int().min(0);

/** A `/v1` request that has ended. */
export const requestViewSchema = z.strictObject({
  id: z.string().describe("x-request-id"),
  ended_at: z.iso.datetime(),
  route: z.string(),
  slot: z.string().describe("The slot, `upstream NAME`, or `none`"),
  model: z.string().describe("As it was asked for, cut after 200 characters"),
  resolved: z.string().nullable().describe("The model as the engine calls it"),
  stream: z.boolean(),
  status: z.int(),
  error: z.string().nullable().describe("The error code of a request that was refused, failed or cut"),
  engine_error: z
    .string()
    .nullable()
    .describe(
      "What the engine or the provider said of its failure, 2 KiB at most, without what looks like a secret: no client gets it",
    ),
  ms: ms.describe("From the header to the end of the answer"),
  held_ms: ms,
  queued_ms: ms,
  first_token_ms: ms.nullable(),
  engine_ms: ms.nullable(),
  tokens_in: z.int().nullable(),
  tokens_out: z.int().nullable(),
  body: z.string().optional().describe("With SVC_REQUEST_BODIES=1: the request, cut, without what looks like a secret"),
});
export type RequestView = z.output<typeof requestViewSchema>;

/** Requests that this gateway has seen. */
export const requestRoutes = {
  requests: {
    method: "GET",
    path: "/api/requests",
    scope: "admin",
    tag: "system",
    summary: "The last requests of this gateway with their times, the newest first; bodies only where they are kept",
    query: z.strictObject({ limit: z.coerce.number().int().min(1).max(500).default(100) }),
    answers: { 200: z.strictObject({ object: z.literal("list"), data: z.array(requestViewSchema) }) },
  },
  traffic: {
    method: "GET",
    path: "/api/traffic",
    scope: "read",
    tag: "system",
    summary: "Requests, tokens and first tokens of this gateway's last minutes, per slot and provider",
    query: z.strictObject({ minutes: z.coerce.number().int().min(1).max(15).default(15) }),
    answers: { 200: trafficViewSchema },
  },
} as const satisfies Record<string, RouteShape>;
