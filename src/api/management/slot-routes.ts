import { z } from "zod";
import { modelRefSchema, slotNameSchema } from "../names.ts";
import { flag, manifestBody, waitQuery } from "./parts.ts";
import type { RouteShape } from "./shape.ts";
import * as view from "./views.ts";

const logQuery = z.strictObject({
  tail: z.coerce.number().int().min(1).max(5000).default(200).describe("Last lines"),
  follow: flag.describe("1: go on with what comes, as events"),
  timestamps: flag.describe("1: the time of each line before it"),
});
const swapBody = z
  .strictObject({
    model: modelRefSchema.optional().describe("The ref to hold"),
    reset: z.boolean().optional().describe("true: back to what the manifest says"),
    write: z.boolean().optional().describe("true: into the manifest instead of beside it"),
  })
  // One of the two, which the handler says in words.
  .meta({
    oneOf: [
      { required: ["model"], properties: { reset: { const: false } } },
      { required: ["reset"], properties: { reset: { const: true }, model: false } },
    ],
  });

/** Slots: what they are, what they do, and what is asked of them. */
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
    manifest: "Slot",
    answers: { 201: view.slotDetailSchema },
  },
  putSlot: {
    method: "PUT",
    path: "/api/slots/{name}",
    names: slotNameSchema,
    scope: "admin",
    tag: "slots",
    summary: "Makes the manifest say this, keeping its comments and order",
    query: waitQuery,
    body: manifestBody,
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
  planSlot: {
    method: "GET",
    path: "/api/slots/{name}/plan",
    names: slotNameSchema,
    scope: "read",
    tag: "slots",
    summary: "What the operator is about to do, and why",
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
    summary: "Starts the engine anew, and forgets failures",
    query: waitQuery,
    answers: { 202: view.slotDetailSchema },
  },
  swapSlot: {
    method: "POST",
    path: "/api/slots/{name}/swap",
    names: slotNameSchema,
    scope: "admin",
    tag: "slots",
    summary: "Has the slot hold another model until its manifest says otherwise",
    query: waitQuery,
    body: swapBody,
    answers: { 202: view.slotDetailSchema },
  },
  slotLogs: {
    method: "GET",
    path: "/api/slots/{name}/logs",
    names: slotNameSchema,
    scope: "admin",
    tag: "slots",
    summary: "What the engine wrote; it may hold prompts",
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
