import { z } from "zod";
import { modelRefSchema, slotNameSchema } from "../names.ts";
import { benchmarkBody } from "./benchmark-view.ts";
import { manifestTextSchema, manifestViewSchema } from "./manifest-text.ts";
import { flag, manifestBody, manifestBodyBytes, waitQuery } from "./parts.ts";
import type { RouteShape } from "./shape.ts";
import * as view from "./views.ts";

const logQuery = z.strictObject({
  tail: z.coerce.number().int().min(1).max(5000).default(200).describe("Last lines"),
  follow: flag.describe("1: follow the log, as events"),
  timestamps: flag.describe("1: each line after its time"),
});
const swapBody = z
  .strictObject({
    model: modelRefSchema.optional().describe("The ref to hold"),
    reset: z.boolean().optional().describe("true: back to the manifest's model"),
    write: z.boolean().optional().describe("true: write it into the manifest"),
  })
  // Either of the two is allowed, not both; the handler explains that in its error.
  .meta({
    oneOf: [
      { required: ["model"], properties: { reset: { const: false } } },
      { required: ["reset"], properties: { reset: { const: true }, model: false } },
    ],
  });

/** Slots: their state, and actions on them. */
export const slotRoutes = {
  listSlots: {
    method: "GET",
    path: "/api/slots",
    scope: "read",
    tag: "slots",
    summary: "All slots, built-in ones first",
    answers: { 200: view.listOf(view.slotViewSchema) },
  },
  getSlot: {
    method: "GET",
    path: "/api/slots/{name}",
    names: slotNameSchema,
    scope: "read",
    tag: "slots",
    summary: "One slot with its spec and its last transitions",
    answers: { 200: view.slotDetailSchema },
  },
  createSlot: {
    method: "POST",
    path: "/api/slots",
    scope: "admin",
    tag: "slots",
    summary: "Writes a new manifest",
    query: waitQuery,
    body: manifestBody,
    bodyLimitBytes: manifestBodyBytes,
    manifest: "Slot",
    answers: { 201: view.slotDetailSchema },
  },
  putSlot: {
    method: "PUT",
    path: "/api/slots/{name}",
    names: slotNameSchema,
    scope: "admin",
    tag: "slots",
    summary: "Gives the manifest this content, keeping its comments and order",
    query: waitQuery,
    body: manifestBody,
    bodyLimitBytes: manifestBodyBytes,
    manifest: "Slot",
    answers: { 201: view.slotDetailSchema, 202: view.slotDetailSchema },
  },
  deleteSlot: {
    method: "DELETE",
    path: "/api/slots/{name}",
    names: slotNameSchema,
    scope: "admin",
    tag: "slots",
    summary: "Removes the manifest; the engine is drained and stopped",
    answers: { 202: view.slotDetailSchema },
  },
  getManifest: {
    method: "GET",
    path: "/api/slots/{name}/manifest",
    names: slotNameSchema,
    scope: "admin",
    tag: "slots",
    summary: "The text of the file that declares the slot",
    answers: { 200: manifestViewSchema },
  },
  putManifest: {
    method: "PUT",
    path: "/api/slots/{name}/manifest",
    names: slotNameSchema,
    scope: "admin",
    tag: "slots",
    summary: "Gives that file another text, unless it was changed since `hash`",
    query: waitQuery,
    body: manifestTextSchema,
    bodyLimitBytes: manifestBodyBytes,
    answers: { 202: view.slotDetailSchema },
  },
  planSlot: {
    method: "GET",
    path: "/api/slots/{name}/plan",
    names: slotNameSchema,
    scope: "read",
    tag: "slots",
    summary: "The operator's next steps, with reasons",
    answers: { 200: view.planViewSchema },
  },
  loadSlot: {
    method: "POST",
    path: "/api/slots/{name}/load",
    names: slotNameSchema,
    scope: "admin",
    tag: "slots",
    summary: "Loads the slot",
    query: waitQuery,
    answers: { 202: view.slotDetailSchema },
  },
  unloadSlot: {
    method: "POST",
    path: "/api/slots/{name}/unload",
    names: slotNameSchema,
    scope: "admin",
    tag: "slots",
    summary: "Unloads the slot; an always-loaded one stays so until load, restart or an edit",
    query: waitQuery,
    answers: { 202: view.slotDetailSchema },
  },
  restartSlot: {
    method: "POST",
    path: "/api/slots/{name}/restart",
    names: slotNameSchema,
    scope: "admin",
    tag: "slots",
    summary: "Restarts the engine, and resets failures",
    query: waitQuery,
    answers: { 202: view.slotDetailSchema },
  },
  swapSlot: {
    method: "POST",
    path: "/api/slots/{name}/swap",
    names: slotNameSchema,
    scope: "admin",
    tag: "slots",
    summary: "Swaps the slot to another model until its manifest changes",
    query: waitQuery,
    body: swapBody,
    answers: { 202: view.slotDetailSchema },
  },
  keepBenchmark: {
    method: "POST",
    path: "/api/slots/{name}/benchmark",
    names: slotNameSchema,
    scope: "admin",
    tag: "slots",
    summary: "Keeps a result of `berth bench` as the slot's last; the operator adds what it depends on",
    body: benchmarkBody,
    answers: { 202: view.slotDetailSchema },
  },
  slotLogs: {
    method: "GET",
    path: "/api/slots/{name}/logs",
    names: slotNameSchema,
    scope: "admin",
    tag: "slots",
    summary: "The engine's log; it may hold prompts",
    query: logQuery,
    answers: { 200: { type: ["text/plain", "text/event-stream"] } },
  },
  events: {
    method: "GET",
    path: "/api/events",
    scope: "read",
    tag: "events",
    summary: "A snapshot, then every change, as server-sent events",
    answers: { 200: { type: "text/event-stream" } },
  },
} as const satisfies Record<string, RouteShape>;
