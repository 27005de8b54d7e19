import { z } from "zod";
import { slotNameSchema } from "../names.ts";
import { flag, waitQuery } from "./parts.ts";
import type { RouteShape } from "./shape.ts";
import * as view from "./views.ts";

/** Models and what is made with them. */
export const modelRoutes = {
  listModels: {
    method: "GET",
    path: "/api/models",
    scope: "read",
    tag: "models",
    summary: "Every model of the registry",
    answers: { 200: view.listOf(view.modelViewSchema) },
  },
  modelCatalog: {
    method: "GET",
    path: "/api/models/catalog",
    scope: "read",
    tag: "models",
    summary: "Curated models and whether they fit this machine (not in this version)",
    answers: { 200: view.listOf(view.modelViewSchema) },
  },
  assignModel: {
    method: "POST",
    path: "/api/models/{ref}/assign",
    scope: "admin",
    tag: "models",
    summary: "Has a slot hold the model, as a swap does",
    query: waitQuery,
    body: z.strictObject({ slot: slotNameSchema }),
    answers: { 202: view.slotDetailSchema },
  },
  pullModel: {
    method: "POST",
    path: "/api/models/pull",
    scope: "admin",
    tag: "models",
    summary: "Fetches a model (not in this version)",
    body: z.record(z.string(), z.json()),
    answers: { 202: z.strictObject({ id: z.string() }) },
  },
  getModel: {
    method: "GET",
    path: "/api/models/{ref}",
    scope: "read",
    tag: "models",
    summary: "One model",
    answers: { 200: view.modelViewSchema },
  },
  deleteModel: {
    method: "DELETE",
    path: "/api/models/{ref}",
    scope: "admin",
    tag: "models",
    summary: "Takes a model from the registry",
    query: z.strictObject({
      force: flag.describe("1: also while a slot holds it"),
      files: flag.describe("1: its files too"),
    }),
    answers: { 202: view.modelViewSchema },
  },
  listPulls: {
    method: "GET",
    path: "/api/pulls",
    scope: "read",
    tag: "models",
    summary: "Models that are being fetched (none in this version)",
    answers: { 200: view.listOf(z.strictObject({ id: z.string() })) },
  },
  getPull: {
    method: "GET",
    path: "/api/pulls/{id}",
    scope: "read",
    tag: "models",
    summary: "One fetch",
    answers: { 200: z.strictObject({ id: z.string() }) },
  },
  cancelPull: {
    method: "DELETE",
    path: "/api/pulls/{id}",
    scope: "admin",
    tag: "models",
    summary: "Ends a fetch",
    answers: { 202: z.strictObject({ id: z.string() }) },
  },
  cachedImage: {
    method: "GET",
    path: "/api/images/cache/{name}",
    scope: "v1",
    tag: "images",
    summary: "An image that was drawn lately",
    answers: { 200: { type: "image/png" } },
  },
  listV1Models: {
    method: "GET",
    path: "/v1/models",
    scope: "public",
    tag: "v1",
    summary: "Slots, then models of the registry, then those of providers",
    // Clients of other services page through such lists: what they ask for beside is let pass.
    query: z.object({
      all: flag.describe("1: also custom slots that cannot answer"),
      available: flag.describe("1: nothing that cannot answer, built-in slots included"),
    }),
    answers: { 200: view.listOf(view.v1ModelSchema) },
  },
  getV1Model: {
    method: "GET",
    path: "/v1/models/{ref}",
    scope: "v1",
    tag: "v1",
    summary: "One of them; the id may hold slashes and colons",
    answers: { 200: view.v1ModelSchema },
  },
} as const satisfies Record<string, RouteShape>;
