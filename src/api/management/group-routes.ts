import { z } from "zod";
import { conditionSchema } from "../conditions.ts";
import { groupMemberStates } from "../group-status.ts";
import { longestLoanSeconds } from "../longest-loan.ts";
import { slotGroupSpecSchema } from "../slot-group.ts";
import { slotNameSchema } from "../names.ts";
import { manifestBody, manifestBodyBytes } from "./parts.ts";
import type { RouteShape } from "./shape.ts";
import { listOf } from "./views.ts";

const amount = z.number().min(0);

/** One group: what its slots share, and who holds it. */
export const groupViewSchema = z.strictObject({
  name: z.string(),
  declared: z
    .boolean()
    .describe("A SlotGroup of that name is in force; else its slots share the memory of their devices"),
  file: z.string().nullable(),
  spec: slotGroupSpecSchema.nullable().describe("The spec in force; null: none"),
  budget: z.array(
    z.strictObject({
      resource: z.string().describe("slots, by number; memory or a device, in bytes"),
      total: amount,
      used: amount,
      free: amount,
    }),
  ),
  members: z
    .array(
      z.strictObject({
        slot: z.string(),
        state: z.enum(groupMemberStates),
        since: z.iso.datetime(),
        needs: z.array(z.strictObject({ resource: z.string(), amount })),
        cost: z
          .strictObject({
            load_seconds: amount.nullable().describe("Of its last load; null: not measured"),
            context_tokens: amount
              .nullable()
              .describe("In its engine's cache; null: not known, or kept over an unload"),
            context_seconds: amount.nullable().describe("To read these again"),
          })
          .nullable()
          .describe("What coming back would cost a loaded slot"),
        message: z.string().nullable().describe("Why it waits"),
      }),
    )
    .describe("Waiting ones in the order of the queue, then the others by name"),
  lent_until: z.iso.datetime().nullable(),
  problems: z.array(z.strictObject({ reason: z.string(), message: z.string() })),
  conditions: z.array(conditionSchema),
});
export type GroupView = z.output<typeof groupViewSchema>;

/** A name of a group is any text without a slash: slots may name one that no file declares. */
const groupName = z.string().min(1).max(64);

/** Groups of slots that share a budget. */
export const groupRoutes = {
  listGroups: {
    method: "GET",
    path: "/api/groups",
    scope: "read",
    tag: "groups",
    summary: "Groups of slots: what they share, and who holds it",
    answers: { 200: listOf(groupViewSchema) },
  },
  getGroup: {
    method: "GET",
    path: "/api/groups/{name}",
    names: groupName,
    scope: "read",
    tag: "groups",
    summary: "One group",
    answers: { 200: groupViewSchema },
  },
  putGroup: {
    method: "PUT",
    path: "/api/groups/{name}",
    names: slotNameSchema,
    scope: "admin",
    tag: "groups",
    summary: "Writes a group's manifest",
    body: manifestBody,
    bodyLimitBytes: manifestBodyBytes,
    manifest: "SlotGroup",
    answers: { 201: z.strictObject({ name: z.string() }), 202: z.strictObject({ name: z.string() }) },
  },
  deleteGroup: {
    method: "DELETE",
    path: "/api/groups/{name}",
    names: slotNameSchema,
    scope: "admin",
    tag: "groups",
    summary: "Removes a group's manifest; slots that name it share the memory of their devices",
    answers: { 202: z.strictObject({ name: z.string() }) },
  },
  lendGroup: {
    method: "POST",
    path: "/api/groups/{name}/lend",
    names: groupName,
    scope: "admin",
    tag: "groups",
    summary: "Has every slot of the group leave, and none load, for a time; again: until another time",
    body: z.strictObject({ seconds: z.int().min(1).max(longestLoanSeconds).describe("From now on; at most 30 days") }),
    answers: { 202: groupViewSchema },
  },
  endGroupLoan: {
    method: "DELETE",
    path: "/api/groups/{name}/lend",
    names: groupName,
    scope: "admin",
    tag: "groups",
    summary: "Ends that now",
    answers: { 202: groupViewSchema },
  },
} as const satisfies Record<string, RouteShape>;
