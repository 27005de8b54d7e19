import { z } from "zod";

const time = z.iso.datetime();
const amount = z.number().min(0);

/** The states of a slot with regard to its group's budget. */
export const groupMemberStates = ["loaded", "loading", "leaving", "waiting", "unloaded"] as const;

/** The cost of another load of a slot. */
const groupCostSchema = z.strictObject({
  loadSeconds: amount.optional(),
  contextTokens: z.int().min(0).optional(),
  contextSeconds: amount.optional(),
});

/** One group as the operator publishes it, declared or only named by slots. */
export const groupStatusSchema = z.strictObject({
  name: z.string(),
  /** A SlotGroup of that name is in force. */
  isDeclared: z.boolean(),
  /** The shared resources: `slots` by number, `memory` or a device in bytes. */
  budget: z.array(z.strictObject({ resource: z.string(), total: amount, used: amount })),
  /** Waiting ones in the order of the queue, before the others by name. */
  members: z.array(
    z.strictObject({
      slot: z.string(),
      state: z.enum(groupMemberStates),
      since: time,
      needs: z.array(z.strictObject({ resource: z.string(), amount })),
      /**
       * The cost of coming back for a loaded slot: the time of its last load, and the tokens in its engine's cache with the
       * time to read them again. Absent parts: not known, or nothing is in the cache that the slot does not keep.
       */
      cost: groupCostSchema.optional(),
      /** Since when a loaded slot waits for the memory of its next engine, as after a swap to a larger model. */
      nextWaitsSince: time.optional(),
      /** Why it waits. */
      message: z.string().optional(),
    }),
  ),
  lentUntil: time.optional(),
  /** Problems that a person should mend. */
  problems: z.array(z.strictObject({ reason: z.string(), message: z.string() })),
});
export type GroupStatus = z.output<typeof groupStatusSchema>;

/** Every group, published whole: `<state>/groups/status.json`. */
export const publishedGroupsSchema = z.strictObject({ schema: z.literal(1), groups: z.array(groupStatusSchema) });
export type PublishedGroups = z.output<typeof publishedGroupsSchema>;

/** The slots of a group leave, and none is loaded before that time. It outlives the operator and gateways. */
export const groupLoanSchema = z.strictObject({
  schema: z.literal(1),
  group: z.string(),
  until: time,
  requestedAt: time,
});
export type GroupLoan = z.output<typeof groupLoanSchema>;
