import { z } from "zod";
import { modelRefSchema, slotNameSchema } from "../names.ts";
import { flag, waitQuery } from "./parts.ts";
import { collectionViewSchema, modelRemovalSchema, scanBodySchema, scanViewSchema } from "./model-file-views.ts";
import { modelChoicesSchema, typedNameSchema } from "./model-choices-view.ts";
import { pullBodySchema, pullViewSchema } from "./pull-views.ts";
import type { RouteShape } from "./shape.ts";
import { v1ModelSchema } from "./v1-model.ts";
import * as view from "./views.ts";

/** Models, and actions on them. */
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
    summary: "Curated models and whether they fit this machine",
    answers: { 200: view.listOf(view.catalogViewSchema) },
  },
  modelChoices: {
    method: "GET",
    path: "/api/models/hub",
    scope: "admin",
    tag: "models",
    summary:
      "The models that a name may stand for, as a person types it, with size and fit; of a repository, its files",
    description:
      "For admins, as the pull that follows: the operator asks the hub over this machine's network, with its HF_TOKEN, so the list may name private repositories and their files.",
    query: z.strictObject({
      name: typedNameSchema.describe(
        "A ref, qwen3:4b, owner/name, hf.co/owner/name:Q4_K_M, the address of a hub's page, hf://… or https://…",
      ),
    }),
    answers: { 200: modelChoicesSchema },
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
    summary: "Fetches a model, or joins who does",
    body: pullBodySchema,
    answers: { 202: pullViewSchema },
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
    summary: "Removes a model from the registry",
    query: z.strictObject({
      force: flag.describe("1: also while a slot holds it"),
      files: flag.describe("1: its files too; the operator deletes those that no other model has"),
      dry_run: flag.describe("1: nothing is removed, and the answer tells what would be"),
    }),
    answers: { 202: modelRemovalSchema },
  },
  scanModels: {
    method: "POST",
    path: "/api/models/scan",
    scope: "admin",
    tag: "models",
    summary: "Looks for models in directories, and declares the new ones if asked to",
    body: scanBodySchema,
    answers: { 200: scanViewSchema },
  },
  collectModels: {
    method: "POST",
    path: "/api/models/gc",
    scope: "admin",
    tag: "models",
    summary: "Deletes fetched files that no model needs, and partial files that no pull needs",
    body: z.strictObject({ dry_run: z.boolean().optional().describe("Deletes nothing, and lists what would be") }),
    answers: { 200: collectionViewSchema },
  },
  verifyModel: {
    method: "POST",
    path: "/api/models/verify",
    scope: "admin",
    tag: "models",
    summary:
      "Reads the files of a model whose checksums are known, and compares them; the pull that is answered tells how far",
    body: z.strictObject({ model: modelRefSchema }),
    answers: { 202: pullViewSchema },
  },
  listPulls: {
    method: "GET",
    path: "/api/pulls",
    scope: "read",
    tag: "models",
    summary: "Models that are being fetched, and pulls that ended lately",
    answers: { 200: view.listOf(pullViewSchema) },
  },
  getPull: {
    method: "GET",
    path: "/api/pulls/{id}",
    scope: "read",
    tag: "models",
    summary: "One pull",
    answers: { 200: pullViewSchema },
  },
  pausePull: {
    method: "POST",
    path: "/api/pulls/{id}/pause",
    scope: "admin",
    tag: "models",
    summary: "Pauses a pull; what has come stays",
    answers: { 202: pullViewSchema },
  },
  resumePull: {
    method: "POST",
    path: "/api/pulls/{id}/resume",
    scope: "admin",
    tag: "models",
    summary: "Goes on with a pull that was paused, or tries a failed one again now",
    answers: { 202: pullViewSchema },
  },
  cancelPull: {
    method: "DELETE",
    path: "/api/pulls/{id}",
    scope: "admin",
    tag: "models",
    summary: "Ends a pull, and deletes what has come unless somebody else wants it",
    answers: { 202: pullViewSchema },
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
    // Clients of other services page through such lists: their further parameters are ignored.
    query: z.object({
      all: flag.describe("1: also custom slots that cannot answer, and files that are no models"),
      available: flag.describe("1: only models that can answer, also among built-in slots"),
    }),
    answers: { 200: view.listOf(v1ModelSchema) },
  },
  getV1Model: {
    method: "GET",
    path: "/v1/models/{ref}",
    scope: "v1",
    tag: "v1",
    summary: "One of them; the id may hold slashes and colons",
    answers: { 200: v1ModelSchema },
  },
} as const satisfies Record<string, RouteShape>;
