import { z } from "zod";
import { conditionSchema } from "../conditions.ts";
import { hardwareSchema } from "../hardware.ts";
import { modelRecordSchema } from "../model.ts";
import { backends, engineKinds, runtimeKinds, slotCapabilities } from "../names.ts";
import { planSchema } from "../plan.ts";
import { slotSpecSchema } from "../slot.ts";
import { slotStates } from "../states.ts";
import { slotStatusSchema, transitionSchema } from "../status.ts";
import { upstreamSpecSchema } from "../upstream.ts";
import { processStatusSchema } from "../workload.ts";

/** What `/api` answers: snake_case; conditions, specs and manifests stay camelCase (CONTRACT "/api"). */

const seconds = z.number().min(0).nullable();
const count = z.int().min(0);

/** A list as the API answers it: `{object: "list", data}`. */
export function listOf<T extends z.ZodType>(
  item: T,
): z.ZodObject<{ object: z.ZodLiteral<"list">; data: z.ZodArray<T> }> {
  return z.strictObject({ object: z.literal("list"), data: z.array(item) });
}

export const slotViewSchema = z.strictObject({
  name: z.string(),
  state: z.enum(slotStates),
  model: z.string().nullable(),
  model_origin: slotStatusSchema.shape.model.shape.origin,
  engine: z.enum(engineKinds),
  backend: z.union([z.enum(backends), z.string()]),
  runtime: z.union([z.enum(runtimeKinds), z.string()]),
  port: z.int().nullable(),
  endpoint: z.string().nullable(),
  /** Of a container: what it was made from, and the digest where that is known. */
  image: z.string().nullable(),
  image_digest: z.string().nullable(),
  enabled: z.boolean(),
  load: z.enum(["always", "onDemand"]),
  capabilities: z.array(z.enum(slotCapabilities)),
  in_flight: count,
  queued: count,
  held: count,
  conditions: z.array(conditionSchema),
  generation: count,
  observed_generation: count,
  spec_hash: z.string().nullable(),
  restarts: count,
  failures: count,
  last_error: slotStatusSchema.shape.lastError.unwrap().nullable(),
  next_retry_at: z.iso.datetime().nullable(),
  progress: z
    .strictObject({
      bytes_done: z.int(),
      bytes_total: z.int().nullable(),
      bytes_per_second: z.number().nullable(),
    })
    .nullable(),
  last_load_seconds: seconds,
  memory_bytes: z
    .int()
    .min(0)
    .nullable()
    .describe("Resident memory of the engine's own processes; null for containers"),
  compute: z
    .strictObject({
      devices: z.array(z.string()).describe("GPUs that hold something of the model; none: the processor alone"),
      layers_offloaded: count.nullable(),
      layers_total: count.nullable(),
      buffers: z
        .array(z.strictObject({ device: z.string(), bytes: count }))
        .describe("What the engine allocated on GPUs; drivers take some more"),
    })
    .nullable()
    .describe("What the engine itself says that it computes on; null where it does not say"),
  memory: z
    .strictObject({
      host_bytes: count.nullable(),
      devices: z.array(z.strictObject({ id: z.string().describe("As in /api/hardware"), bytes: count })),
    })
    .nullable()
    .describe("What its processes hold on the host and on each GPU, measured every ten seconds; null: not measured"),
  uptime_seconds: seconds,
  processes: z.array(processStatusSchema),
  decisions: slotStatusSchema.shape.decisions.unwrap(),
  file: z.string().nullable(),
  aliases: z.array(z.string()),
});
export type SlotView = z.output<typeof slotViewSchema>;

/** What an image slot draws with. */
const drawsViewSchema = z.strictObject({
  models: z
    .array(
      z.strictObject({
        id: z.string(),
        checkpoint: z.string(),
        is_there: z.boolean().nullable().describe("Whether the engine finds the file; null: it has not said"),
      }),
    )
    .describe("Curated models, any of which a request may name"),
  loaded: z.string().nullable().describe("What this gateway had it draw with last since it started; null: nothing yet"),
});
export type DrawsView = z.output<typeof drawsViewSchema>;

/** One slot with its history. */
export const slotDetailSchema = slotViewSchema.extend({
  transitions: z.array(transitionSchema),
  spec: slotSpecSchema,
  draws: drawsViewSchema.nullish().describe("Of an image slot, where one slot is asked for; null: it is none"),
});
export type SlotDetail = z.output<typeof slotDetailSchema>;

export type PlanView = z.output<typeof planViewSchema>;
export const planViewSchema = z.strictObject({ slot: z.string(), plan: planSchema, text: z.string() });

export const modelViewSchema = z.strictObject({
  id: z.string(),
  size_bytes: z.int().min(0).nullable(),
  /** Of the slot that holds it; null where none does: a backend is decided for a slot. */
  backend: z.string().nullable(),
  capabilities: modelRecordSchema.shape.capabilities.unwrap(),
  license: z.string().nullable(),
  license_url: z.string().nullable(),
  source: z.string(),
  sha256: z.string().nullable(),
  path: z.string().nullable(),
  slots: z.array(z.string()),
  state: z.enum(["available", "assigned", "missing", "unsupported", "invalid"]),
  message: z.string().nullable(),
  architecture: z.string().nullable(),
  context_length: z.int().nullable(),
  parameters: z.int().nullable(),
  quantization: z.string().nullable(),
  pooling: z.string().nullable(),
  origin: modelRecordSchema.shape.origin,
  file: z.string().nullable().describe("The manifest that declares it; null: none does"),
  conditions: z.array(conditionSchema).describe("Of the manifest that declares it, one that was never valid included"),
});
export type ModelView = z.output<typeof modelViewSchema>;

/** An item of `/v1/models`. */
export const v1ModelSchema = z.strictObject({
  id: z.string(),
  object: z.literal("model"),
  created: z.int().min(1),
  owned_by: z.literal("berth"),
  berth: z.looseObject({
    kind: z.enum(["slot", "model", "upstream"]),
    state: z.string(),
    slot: z.string().nullable(),
    capabilities: z.array(z.string()),
  }),
});
export type V1Model = z.output<typeof v1ModelSchema>;

export const hardwareViewSchema = hardwareSchema.extend({
  pending: z.boolean().describe("Another look has been asked for and is not over"),
});
export type HardwareView = z.output<typeof hardwareViewSchema>;

export const upstreamViewSchema = z.strictObject({
  name: z.string(),
  spec: upstreamSpecSchema.nullable().describe("What is in force; null: its manifest was never valid"),
  circuit: z.enum(["closed", "open", "halfOpen"]),
  in_flight: count,
  queued: count,
  models: count,
  problem: z.string().nullable().describe("The message of the first condition that a person should look at"),
  file: z.string().nullable(),
  conditions: z.array(conditionSchema),
});

export type UpstreamRow = z.output<typeof upstreamViewSchema>;

export const upstreamCheckSchema = z.strictObject({
  name: z.string(),
  ok: z.boolean(),
  milliseconds: count,
  models: count.nullable().describe("How many it lists; null where it listed none"),
  problem: z.string().nullable().describe("Why it is not ok, without secrets"),
});

export const statusSchema = z.strictObject({
  name: z.literal("berth"),
  version: z.string(),
  uptime_seconds: z.int().min(0),
  ready: z.boolean(),
  slots: z.array(z.strictObject({ name: z.string(), state: z.enum(slotStates) })),
  counts: z.partialRecord(z.enum(slotStates), count),
});

const checkStatus = z.enum(["ok", "degraded"]);
export const healthSchema = z.strictObject({
  status: checkStatus,
  checks: z.strictObject({
    store: z.strictObject({ status: checkStatus, reasons: z.array(z.string()) }),
    operator_heartbeat: z.strictObject({ status: checkStatus, last: z.iso.datetime().nullable() }),
    disk: z.strictObject({ status: checkStatus, free_bytes: z.int().min(0).nullable() }),
    slots: z.strictObject({ status: checkStatus, failed: z.array(z.string()) }),
    conditions: z
      .strictObject({
        status: checkStatus,
        counts: z.array(z.strictObject({ kind: z.string(), type: z.string(), reason: z.string(), count })),
      })
      .describe("How many resources have a condition that a person should look at; their records tell which and why"),
  }),
});

/** What JSON can say, and nothing else. Throws ZodError. */
export function jsonValue(value: unknown): z.output<typeof json> {
  return json.parse(value);
}
const json = z.json();

export type Setting = z.output<typeof settingSchema>;
export const settingSchema = z.strictObject({
  value: json,
  origin: z.enum(["default", "environment", "file"]),
  environment: z.string(),
  toml: z.string(),
});
export const configViewSchema = z.strictObject({
  config_dir: z.string(),
  read_only: z.boolean(),
  settings: z.record(z.string(), settingSchema),
});

/** One problem of a configuration; `file` is relative to the configuration directory. */
export const diagnosticSchema = z.strictObject({
  reason: z.string(),
  file: z.string(),
  line: z.int().optional(),
  column: z.int().optional(),
  path: z.array(z.union([z.string(), z.number()])).optional(),
  message: z.string(),
});
export const diagnosticsSchema = z.strictObject({ valid: z.boolean(), diagnostics: z.array(diagnosticSchema) });

export const installStateSchema = z.strictObject({
  first_run: z.boolean(),
  has_models: z.boolean(),
  has_ready_slot: z.boolean(),
});
export const urlsSchema = z.strictObject({ api: z.string(), dashboard: z.string(), chat: z.string().nullable() });
export const featuresSchema = z.record(z.string(), z.boolean());
