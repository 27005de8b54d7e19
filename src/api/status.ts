import { z } from "zod";
import { benchmarkSchema, lastBenchmarkSchema } from "./benchmark.ts";
import { computeSchema } from "./compute.ts";
import { conditionSchema } from "./conditions.ts";
import { fitSchema } from "./fit.ts";
import { keptContextSchema } from "./kept-context.ts";
import { modelRecordSchema } from "./model.ts";
import { engineProtocols, kinds, modelRefSchema, processRoles, slotCapabilities, slotNameSchema } from "./names.ts";
import { planSchema } from "./plan.ts";
import { demandOfRefSchema, onRequestSchema } from "./on-request.ts";
import { resourceStatusSchema } from "./resource-status.ts";
import { slotSpecSchema } from "./slot.ts";
import { slotStates } from "./states.ts";
import { upstreamSpecSchema } from "./upstream.ts";
import { processBearerSchema, processDemandSchema, processStatusSchema } from "./workload.ts";

const time = z.iso.datetime();

/** How many of its last transitions a slot keeps. */
export const transitionLimit = 50;

/** One transition of a slot. */
export const transitionSchema = z.strictObject({
  at: time,
  from: z.enum(slotStates),
  to: z.enum(slotStates),
  reason: z.string(),
  message: z.string(),
});
export type Transition = z.infer<typeof transitionSchema>;

const lastErrorSchema = z.strictObject({ reason: z.string(), message: z.string(), time });

export const slotStatusSchema = z.strictObject({
  state: z.enum(slotStates),
  conditions: z.array(conditionSchema),
  observedGeneration: z.int().min(0),
  model: z.strictObject({
    ref: modelRefSchema.optional(),
    /** `request`: chosen by a request that named it (`onRequest`). */
    origin: z.enum(["spec", "swap", "request"]),
    /** The manifest's ref, shown where a swap holds another. */
    spec: modelRefSchema.optional(),
    previous: modelRefSchema.optional(),
    /** The engine's own name for the model: a request's `model` is rewritten to it. */
    served: z.string().optional(),
  }),
  /** The models that requests may choose; absent: the slot's model does not depend on requests. */
  onRequest: onRequestSchema.optional(),
  capabilities: z.array(z.enum(slotCapabilities)),
  /** The protocols that the running engine answers itself; the gateway translates or refuses the others. */
  protocols: z.array(z.enum(engineProtocols)).default([]),
  runtime: z.string().optional(),
  backend: z.string().optional(),
  /** Derived once when the slot was loaded, each with its reason (DECISIONS 2). */
  decisions: z.record(z.string(), z.strictObject({ value: z.string(), reason: z.string() })).default({}),
  /** The engine's own report of its devices; absent: no report, or not running. */
  compute: computeSchema.optional(),
  /** Memory of its processes, measured at intervals; absent: not measured. */
  memory: z
    .strictObject({
      /** Absent: not measurable, as for a container. */
      hostBytes: z.int().min(0).optional(),
      devices: z.array(z.strictObject({ id: z.string(), bytes: z.int().min(0) })),
    })
    .optional(),
  /** The context that the slot keeps over an unload. Absent: nothing has been saved or restored. */
  context: keptContextSchema.optional(),
  /** The memory that the slot needs, and the memory of the machine. Absent: unknown. */
  fit: fitSchema.optional(),
  endpoint: z.string().optional(),
  port: z.int().optional(),
  processes: z.array(processStatusSchema),
  image: z.string().optional(),
  imageDigest: z.string().optional(),
  workloadHash: z.string().optional(),
  /** Starts without a request, since the slot was created. */
  restarts: z.int().min(0),
  /** Failures in a row; cleared by success, an edit or a restart request. */
  failures: z.int().min(0),
  lastError: lastErrorSchema.optional(),
  nextRetryAt: time.optional(),
  /** The failed processes of a slot with several, each with its own count and back-off. */
  processFailures: z
    .array(
      z.strictObject({
        role: z.enum(processRoles),
        ordinal: z.int().min(0),
        failures: z.int().min(0),
        lastError: lastErrorSchema.optional(),
        nextRetryAt: time.optional(),
      }),
    )
    .optional(),
  progress: z
    .strictObject({ bytesDone: z.int(), bytesTotal: z.int().optional(), bytesPerSecond: z.number().optional() })
    .optional(),
  lastLoad: z
    .strictObject({
      startedAt: time,
      /** The model that was loaded. */
      ref: modelRefSchema.optional(),
      pullSeconds: z.number().optional(),
      startSeconds: z.number().optional(),
      warmSeconds: z.number().optional(),
      /** The times of the load before of the same model. */
      previous: z.strictObject({ startSeconds: z.number(), warmSeconds: z.number() }).optional(),
    })
    .optional(),
  /** The last result of `berth bench`. */
  lastBenchmark: lastBenchmarkSchema.optional(),
  readySince: time.optional(),
  /** When an on-demand slot was last used, approximately: it outlives the gateway that served the request. */
  idleSince: time.optional(),
  /** The slot's group is lent: the slot is not loaded before that time. */
  lentUntil: time.optional(),
  /** Aliases that this slot holds; those lost in a conflict are missing. */
  aliases: z.array(z.string()),
  /** Tokens of handled requests, by kind, so that each request acts once. */
  handledRequests: z.record(z.string(), z.string()),
  transitions: z.array(transitionSchema).max(transitionLimit),
  /** Counts that survive an operator restart, for metrics. */
  counters: z.strictObject({ transitions: z.record(z.string(), z.int()), restarts: z.int() }),
});
export type SlotStatus = z.infer<typeof slotStatusSchema>;

/** The status of a slot before its first reconcile. */
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
 * Spec and status of one slot as the operator publishes it, in one file (DECISIONS 15). `revision` grows with every
 * write; a gateway's demand names the revision that it has read.
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
  /**
   * The bearer token that each running process requires of its clients: for gateways alone, never shown to a person.
   * Absent: no process has one.
   */
  bearerList: z.array(processBearerSchema).optional(),
});
export type PublishedSlot = z.infer<typeof publishedSlotSchema>;

/** Models and upstreams as the operator knows them, published whole when they change. */
export const publishedRegistrySchema = z.strictObject({
  schema: z.literal(1),
  models: z.array(modelRecordSchema),
  upstreams: z.array(z.strictObject({ name: z.string(), spec: upstreamSpecSchema })),
  /** Conditions of every declared Model, Upstream and SlotGroup. */
  resources: z.array(resourceStatusSchema),
});
export type PublishedRegistry = z.infer<typeof publishedRegistrySchema>;

/**
 * The writer of a heartbeat, and the heartbeat's number. A reader judges the age of a heartbeat by its own clock, from the
 * moment at which it sees the number change.
 */
const incarnationFields = {
  /** Names one start of one process. */
  incarnation: z.string(),
  /** Grows with each heartbeat of an incarnation. */
  beat: z.int().min(0),
};

/** The operator's heartbeat: rewritten once a second (DECISIONS 10). */
export const publishedOperatorSchema = z.strictObject({
  schema: z.literal(1),
  instance: z.string(),
  pid: z.int(),
  /** The boot of its machine. */
  bootId: z.string(),
  startedAt: time,
  heartbeat: time,
  ...incarnationFields,
  isPaused: z.boolean(),
  /** Every slot has been reconciled once since the operator started: a slot that is not published does not exist. */
  isSettled: z.boolean(),
  /** The number of published slots: with fewer files, some slot exists whose file is missing. */
  slotCount: z.int().min(0),
  configDir: z.string(),
  /** Operators that ended in the last ten minutes without being asked to; absent: none. */
  unexpectedEnds: z.strictObject({ count: z.int().min(1), lastAt: time }).optional(),
  /** Problems of the configuration that belong to no slot, e.g. SourceEmpty or a file without a valid name. */
  problems: z.array(z.strictObject({ reason: z.string(), message: z.string(), file: z.string().optional() })),
});
export type PublishedOperator = z.infer<typeof publishedOperatorSchema>;

/** A heartbeat older than this is void (DECISIONS 5 and 10). */
export const heartbeatTtlMs = 5000;

/** The demand of one gateway per slot; replaced whole (DECISIONS 5). */
export const demandSchema = z.strictObject({
  schema: z.literal(1),
  gateway: z.string(),
  pid: z.int(),
  bootId: z.string(),
  heartbeat: time,
  ...incarnationFields,
  slots: z.record(
    z.string(),
    z.strictObject({
      held: z.int().min(0),
      inFlight: z.int().min(0),
      lastRequestAt: time.optional(),
      /** When a byte last came from the engine while requests were in flight (DECISIONS 12). */
      lastByteAt: time.optional(),
      /**
       * Tokens of the longest conversation that an engine of the slot has in its cache, as its answers counted them, and the
       * prompt tokens that it has read in a second. Absent: no answer has reported tokens since the engine was started.
       */
      context: z.strictObject({ tokens: z.int().min(0), tokensPerSecond: z.number().positive().optional() }).optional(),
      /** The `PublishedSlot.revision` that this gateway acts on. */
      seenRevision: z.int().min(0),
      /** The part of `inFlight` that each process has; a process that is not named has none. */
      endpoints: z.array(processDemandSchema),
      /** The parts of `held` and `inFlight` that name each ref. Absent: none does. */
      refs: z.array(demandOfRefSchema).optional(),
    }),
  ),
});
export type Demand = z.infer<typeof demandSchema>;

/** Imperative requests that are not spec; `benchmark`: keep this result. One file per slot and kind; `token` makes each act once. */
export const requestKinds = ["restart", "load", "unload", "swap-model", "benchmark"] as const;
export type RequestKind = (typeof requestKinds)[number];
export const slotRequestSchema = z.strictObject({
  schema: z.literal(1),
  slot: slotNameSchema,
  kind: z.enum(requestKinds),
  token: z.string(),
  /**
   * For `swap-model` the ref; absent: back to the manifest's model. For `load` the ref to load, one that a request may
   * name.
   */
  model: modelRefSchema.optional(),
  /** Hash of the spec at the time of the request: a later edit of the same field takes precedence. */
  specHash: z.string(),
  /** `model.default` of the spec at the time of the request. */
  specModel: modelRefSchema.optional(),
  /** For `benchmark`: the result to keep. */
  benchmark: benchmarkSchema.optional(),
  requestedAt: time,
  /** The label of the caller's token, or a proxy's user; absent where nobody needs a token. */
  requestedBy: z.string().optional(),
});
export type SlotRequest = z.infer<typeof slotRequestSchema>;

/**
 * A resource whose removal was requested over the API, written before its file is removed: the operator trusts it also
 * for the last resource.
 */
export const removalSchema = z.strictObject({
  schema: z.literal(1),
  kind: z.enum(kinds),
  name: z.string(),
  token: z.string(),
  requestedAt: time,
});
export type Removal = z.infer<typeof removalSchema>;
