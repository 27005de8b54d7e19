import { z } from "zod";
import { computeSchema } from "./compute.ts";
import { conditionSchema } from "./conditions.ts";
import { modelRecordSchema } from "./model.ts";
import { engineProtocols, kinds, modelRefSchema, processRoles, slotCapabilities, slotNameSchema } from "./names.ts";
import { planSchema } from "./plan.ts";
import { resourceStatusSchema } from "./resource-status.ts";
import { slotSpecSchema } from "./slot.ts";
import { slotStates } from "./states.ts";
import { upstreamSpecSchema } from "./upstream.ts";
import { bearerSchema, processStatusSchema } from "./workload.ts";

const time = z.iso.datetime();

/** How many of its last moves a slot keeps. */
export const transitionLimit = 50;

/** One move of a slot. */
export const transitionSchema = z.strictObject({
  at: time,
  from: z.enum(slotStates),
  to: z.enum(slotStates),
  reason: z.string(),
  message: z.string(),
});
export type Transition = z.infer<typeof transitionSchema>;

export const slotStatusSchema = z.strictObject({
  state: z.enum(slotStates),
  conditions: z.array(conditionSchema),
  observedGeneration: z.int().min(0),
  model: z.strictObject({
    ref: modelRefSchema.optional(),
    origin: z.enum(["spec", "swap"]),
    /** What the manifest says, shown where a swap holds something else. */
    spec: modelRefSchema.optional(),
    previous: modelRefSchema.optional(),
    /** The name that the engine knows: what a request's `model` is rewritten to. */
    served: z.string().optional(),
  }),
  capabilities: z.array(z.enum(slotCapabilities)),
  /** What the engine that runs answers itself; what is missing is translated or refused by the gateway. */
  protocols: z.array(z.enum(engineProtocols)).default([]),
  runtime: z.string().optional(),
  backend: z.string().optional(),
  /** Derived once when the slot was loaded, each with its reason (DECISIONS 2). */
  decisions: z.record(z.string(), z.strictObject({ value: z.string(), reason: z.string() })).default({}),
  /** What the engine itself said that it computes on; absent: it did not say, or does not run. */
  compute: computeSchema.optional(),
  /** What its processes hold, measured now and then; absent: not measured. */
  memory: z
    .strictObject({
      /** Absent: it cannot be told, as of a container. */
      hostBytes: z.int().min(0).optional(),
      devices: z.array(z.strictObject({ id: z.string(), bytes: z.int().min(0) })),
    })
    .optional(),
  endpoint: z.string().optional(),
  port: z.int().optional(),
  processes: z.array(processStatusSchema),
  image: z.string().optional(),
  imageDigest: z.string().optional(),
  workloadHash: z.string().optional(),
  /** Starts that nobody asked for, since the slot was created. */
  restarts: z.int().min(0),
  /** Failures in a row; cleared by success, an edit or a restart request. */
  failures: z.int().min(0),
  lastError: z.strictObject({ reason: z.string(), message: z.string(), time }).optional(),
  nextRetryAt: time.optional(),
  progress: z
    .strictObject({ bytesDone: z.int(), bytesTotal: z.int().optional(), bytesPerSecond: z.number().optional() })
    .optional(),
  lastLoad: z
    .strictObject({
      startedAt: time,
      pullSeconds: z.number().optional(),
      startSeconds: z.number().optional(),
      warmSeconds: z.number().optional(),
    })
    .optional(),
  readySince: time.optional(),
  /** When an on-demand slot was last used, about: it outlives the gateway that was asked. */
  idleSince: time.optional(),
  /** Aliases that this slot was given; those it lost to a conflict are missing. */
  aliases: z.array(z.string()),
  /** Requests obeyed, by kind → token, so that each acts once. */
  handledRequests: z.record(z.string(), z.string()),
  transitions: z.array(transitionSchema).max(transitionLimit),
  /** Counts that survive an operator restart, for metrics. */
  counters: z.strictObject({ transitions: z.record(z.string(), z.int()), restarts: z.int() }),
});
export type SlotStatus = z.infer<typeof slotStatusSchema>;

/** Of a slot that nobody has looked at yet. */
export const emptyStatus: SlotStatus = {
  state: "offline",
  conditions: [],
  observedGeneration: 0,
  model: { origin: "spec" },
  capabilities: [],
  protocols: [],
  decisions: {},
  processes: [],
  restarts: 0,
  failures: 0,
  aliases: [],
  handledRequests: {},
  transitions: [],
  counters: { transitions: {}, restarts: 0 },
};

/**
 * Spec and status of one slot as the operator publishes it, in one file (DECISIONS 15).
 * `revision` grows with every write; a gateway names in its demand the one it has seen.
 */
export const publishedSlotSchema = z.strictObject({
  schema: z.literal(1),
  name: slotNameSchema,
  revision: z.int().min(1),
  generation: z.int().min(0),
  specHash: z.string(),
  /** Where the spec comes from, for a person; absent for an unconfigured built-in. */
  file: z.string().optional(),
  labels: z.record(z.string(), z.string()),
  spec: slotSpecSchema,
  status: slotStatusSchema,
  plan: planSchema,
  /** What each process that runs wants of whoever asks it: for gateways alone, and no part of what a person is shown. */
  bearers: z.partialRecord(z.enum(processRoles), bearerSchema).optional(),
});
export type PublishedSlot = z.infer<typeof publishedSlotSchema>;

/** Models and upstreams as the operator knows them, published whole when they change. */
export const publishedRegistrySchema = z.strictObject({
  schema: z.literal(1),
  models: z.array(modelRecordSchema),
  upstreams: z.array(z.strictObject({ name: z.string(), spec: upstreamSpecSchema })),
  /** Conditions of every Model and Upstream that is declared; absent: an operator of before there were any. */
  resources: z.array(resourceStatusSchema).optional(),
});
export type PublishedRegistry = z.infer<typeof publishedRegistrySchema>;

/** The operator's heartbeat: rewritten once a second (DECISIONS 10). */
export const publishedOperatorSchema = z.strictObject({
  schema: z.literal(1),
  instance: z.string(),
  pid: z.int(),
  bootId: z.string(),
  startedAt: time,
  heartbeat: time,
  isPaused: z.boolean(),
  /** Every slot has been reconciled once since it started: what is not published does not exist. */
  isSettled: z.boolean(),
  configDir: z.string(),
  /** Problems of the configuration that belong to no slot, e.g. SourceEmpty or a file that names nothing. */
  problems: z.array(z.strictObject({ reason: z.string(), message: z.string(), file: z.string().optional() })),
});
export type PublishedOperator = z.infer<typeof publishedOperatorSchema>;

/** A heartbeat older than this is void (DECISIONS 5 and 10). */
export const heartbeatTtlMs = 5000;

/** What one gateway wants and holds, per slot; replaced whole (DECISIONS 5). */
export const demandSchema = z.strictObject({
  schema: z.literal(1),
  gateway: z.string(),
  pid: z.int(),
  bootId: z.string(),
  heartbeat: time,
  /** It sends engines their bearers: those of earlier versions do not, and engines started for these take none. */
  sendsBearers: z.boolean().optional(),
  slots: z.record(
    z.string(),
    z.strictObject({
      held: z.int().min(0),
      inFlight: z.int().min(0),
      lastRequestAt: time.optional(),
      /** When a byte last came from the engine while requests were in flight (DECISIONS 12). */
      lastByteAt: time.optional(),
      /** `PublishedSlot.revision` this gateway acts on. */
      seenRevision: z.int().min(0),
    }),
  ),
});
export type Demand = z.infer<typeof demandSchema>;

/** Imperative requests that are not spec. One file per slot and kind; `token` makes each act once. */
export const requestKinds = ["restart", "load", "unload", "swap-model"] as const;
export type RequestKind = (typeof requestKinds)[number];
export const slotRequestSchema = z.strictObject({
  schema: z.literal(1),
  slot: slotNameSchema,
  kind: z.enum(requestKinds),
  token: z.string(),
  /** `swap-model`: the ref; absent with that kind: back to what the manifest says. */
  model: modelRefSchema.optional(),
  /** Spec hash it was made against: a later edit of the same field wins over it. */
  specHash: z.string(),
  /** `model.default` of the spec it was made against. */
  specModel: modelRefSchema.optional(),
  requestedAt: time,
});
export type SlotRequest = z.infer<typeof slotRequestSchema>;

/** A resource that the API was asked to remove, written before its file goes: the operator believes it of the last one too. */
export const removalSchema = z.strictObject({
  schema: z.literal(1),
  kind: z.enum(kinds),
  name: z.string(),
  token: z.string(),
  requestedAt: time,
});
export type Removal = z.infer<typeof removalSchema>;
