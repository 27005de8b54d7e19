import { z } from "zod";
import { listOf } from "./views.ts";
import type { RouteShape } from "./shape.ts";

export const conversationIdSchema = z.string().regex(/^[a-z0-9]{8,40}$/, "8 to 40 lower-case letters and digits");

/** With its pictures, which the page has scaled down. */
export const longestConversationBytes = 16 * 1024 ** 2;

const messageSchema = z.strictObject({
  role: z.enum(["user", "assistant"]),
  content: z.string(),
  images: z.array(z.string().startsWith("data:image/")).max(16).optional().describe("As data: addresses"),
  files: z
    .array(z.strictObject({ name: z.string(), text: z.string() }))
    .max(100)
    .optional()
    .describe("Attached texts"),
  thoughts: z.string().optional(),
  thoughtSeconds: z.number().min(0).optional().describe("How long it thought"),
  toolCalls: z
    .array(z.strictObject({ name: z.string(), arguments: z.string() }))
    .max(100)
    .optional(),
  model: z.string().optional(),
  tokens: z.number().min(0).optional(),
  seconds: z.number().min(0).optional(),
  isCut: z.boolean().optional().describe("Whether its limit of tokens has ended it"),
  failure: z.string().optional().describe("Why the answer ends before its end"),
  cause: z
    .strictObject({ code: z.string(), slot: z.string().optional(), isUnloaded: z.boolean().optional() })
    .optional()
    .describe("The error's code, and the slot that answers once a person has done something"),
  after: z
    .int()
    .min(-1)
    .max(1999)
    .optional()
    .describe("The place of the message that it follows, where that is not the one before it; -1: it is a first one"),
});

const utcTime = /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?Z$/;

const head = {
  id: conversationIdSchema,
  title: z.string().max(200),
  model: z.string().max(300),
  updated_at: z.string().regex(utcTime, "a time in UTC, as in ISO 8601"),
  pinned: z.boolean().optional().describe("It stands first in the list"),
} as const;

export const conversationHeadSchema = z.strictObject(head);
export type ConversationHead = z.output<typeof conversationHeadSchema>;

export const conversationSchema = z.strictObject({
  ...head,
  parameters: z.strictObject({
    system: z.string(),
    temperature: z.string().max(20).describe("Empty: the engine's own"),
    maxTokens: z.string().max(20).describe("Empty: the engine's own"),
  }),
  messages: z.array(messageSchema).max(2000).describe("Of all branches, in the order of their writing"),
  shown: z.int().min(0).max(1999).optional().describe("The place of the shown branch's end; absent: the last message"),
});
export type Conversation = z.output<typeof conversationSchema>;

/** Conversations of the chat page, each readable by the caller who has kept it alone. */
export const chatRoutes = {
  listConversations: {
    method: "GET",
    path: "/api/conversations",
    scope: "v1",
    tag: "chat",
    summary: "The caller's conversations, latest first",
    answers: { 200: listOf(conversationHeadSchema) },
  },
  getConversation: {
    method: "GET",
    path: "/api/conversations/{id}",
    names: conversationIdSchema,
    scope: "v1",
    tag: "chat",
    summary: "One of them, with its messages",
    answers: { 200: conversationSchema },
  },
  putConversation: {
    method: "PUT",
    path: "/api/conversations/{id}",
    names: conversationIdSchema,
    scope: "v1",
    tag: "chat",
    summary: "Keeps a conversation; 409 where another text of it has been kept meanwhile, or it has been deleted",
    query: z.strictObject({
      based_on: z
        .union([z.literal("none"), z.string().regex(utcTime, "a time in UTC, as in ISO 8601, or none")])
        .optional()
        .describe(
          "The `updated_at` of the kept text that this one continues; `none`: it continues none. Where another text is kept: 409 `config.changed`, with its `updated_at` in the details, which is null where the conversation has been deleted. Absent: this text replaces any",
        ),
    }),
    body: conversationSchema,
    isHeavy: true,
    bodyLimitBytes: longestConversationBytes,
    answers: { 200: conversationHeadSchema },
  },
  deleteConversation: {
    method: "DELETE",
    path: "/api/conversations/{id}",
    names: conversationIdSchema,
    scope: "v1",
    tag: "chat",
    summary: "Deletes a conversation",
    answers: { 204: "nothing" },
  },
} as const satisfies Record<string, RouteShape>;
