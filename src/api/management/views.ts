import { z } from "zod";
import { conditionSchema } from "../conditions.ts";
import { fitStages } from "../fit.ts";
import { hardwareSchema } from "../hardware.ts";
import { keptContextSchema } from "../kept-context.ts";
import { machineReadingSchema } from "../machine-reading.ts";
import { modelRecordSchema } from "../model.ts";
import { backends, engineKinds, runtimeKinds, slotCapabilities } from "../names.ts";
import { planSchema } from "../plan.ts";
import { slotSpecSchema } from "../slot.ts";
import { slotStates } from "../states.ts";
import { slotStatusSchema, transitionSchema } from "../status.ts";
import { upstreamSpecSchema } from "../upstream.ts";
import { processStatusSchema } from "../workload.ts";
import { benchmarkViewSchema, modelBenchmarkSchema } from "./benchmark-view.ts";
import { choiceViewSchema } from "./choice-view.ts";

/** Answers of `/api`: snake_case; conditions, specs and manifests stay camelCase (CONTRACT "/api"). */

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
  /** The image of a container, and the digest where it is known. */
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
  recent_failures: z
    .strictObject({
      count: z.int().min(1).describe("Among its last 50 transitions"),
      since: z.iso.datetime().describe("The first of them"),
      time: z.iso.datetime().describe("The last of them"),
      reason: z.string(),
      message: z.string(),
    })
    .nullable()
    .describe("Its failures of the last 24 hours, also where it has recovered; null: none"),
  progress: z
    .strictObject({
      bytes_done: z.int(),
      bytes_total: z.int().nullable(),
      bytes_per_second: z.number().nullable(),
    })
    .nullable(),
  last_load_seconds: seconds,
  last_benchmark: benchmarkViewSchema.nullable().describe("The last kept result of `berth bench`; null: none"),
  memory_bytes: z
    .int()
    .min(0)
    .nullable()
    .describe("Resident memory of the engine's own processes; null for containers"),
  compute: z
    .strictObject({
      devices: z.array(z.string()).describe("GPUs that hold a part of the model; none: the processor alone"),
      layers_offloaded: count.nullable(),
      layers_total: count.nullable(),
      buffers: z
        .array(z.strictObject({ device: z.string(), bytes: count }))
        .describe("The engine's allocations on GPUs; drivers add some"),
    })
    .nullable()
    .describe("The devices that the engine itself reports; null without a report"),
  memory: z
    .strictObject({
      host_bytes: count.nullable(),
      devices: z.array(z.strictObject({ id: z.string().describe("As in /api/hardware"), bytes: count })),
    })
    .nullable()
    .describe("Memory of its processes on the host and on each GPU, measured every ten seconds; null: not measured"),
  fit: z
    .strictObject({
      stage: z.enum(fitStages).describe("Where the figure comes from; a later one is believed over an earlier one"),
      device: z.string().describe("The one that is shortest of room: host, or a GPU"),
      need_bytes: count,
      budget_bytes: count.nullable().describe("Null: not known"),
      error_ratio: z.number().nullable().describe("Of the last estimate against what was measured; null: not measured"),
      devices: z.array(z.strictObject({ id: z.string(), need_bytes: count, budget_bytes: count.nullable() })),
      stages: z.array(
        z.strictObject({ stage: z.enum(fitStages), need_bytes: count, error_ratio: z.number().nullable() }),
      ),
    })
    .nullable()
    .describe("What it needs of memory, and what there is; null: nothing is known of it"),
  context: keptContextSchema
    .nullable()
    .describe("What became last of the context that it keeps over an unload; null: nothing"),
  uptime_seconds: seconds,
  processes: z.array(processStatusSchema),
  decisions: slotStatusSchema.shape.decisions.unwrap(),
  file: z.string().nullable(),
  aliases: z.array(z.string()),
});
export type SlotView = z.output<typeof slotViewSchema>;

/** A curated model, and whether it fits this machine. */
export const catalogViewSchema = z.strictObject({
  id: z.string(),
  title: z.string(),
  engine: z.enum(engineKinds),
  size_bytes: count.describe("Rounded where no file of it is here"),
  capabilities: z.array(z.string()),
  license: z.string(),
  license_url: z.string(),
  must_accept: z.boolean().describe("Its licence forbids some use, and must be accepted before it is fetched"),
  source: z.string(),
  sha256: z.string().nullable().describe("Null: not known"),
  unverified: z.array(z.string()).describe("What nobody compared with the publisher's page"),
  checked: z
    .strictObject({ page: z.string(), date: z.string(), fields: z.array(z.string()) })
    .nullable()
    .describe("What was compared with a stored copy of the publisher's page; null: nothing"),
  note: z.string().nullable(),
  last_benchmark: modelBenchmarkSchema,
  is_here: z.boolean().describe("Its files are on this machine"),
  fit: z.strictObject({
    verdict: z.enum(["fits", "fits_with", "does_not_fit", "unknown"]),
    message: z.string(),
    need_bytes: count.nullable(),
    budget_bytes: count.nullable(),
    settings: z
      .strictObject({ context_size: count.optional(), gpu_layers: count.optional() })
      .optional()
      .describe("With which it fits"),
    inputs: z.array(z.string()).describe("What the verdict follows from"),
    check: z.string().describe("The command that checks it"),
  }),
});
export type CatalogView = z.output<typeof catalogViewSchema>;

/** The models that an image slot can draw with. */
const drawsViewSchema = z.strictObject({
  models: z
    .array(
      z.strictObject({
        id: z.string(),
        checkpoint: z.string(),
        is_there: z.boolean().nullable().describe("Whether the engine has the file; null: unknown"),
      }),
    )
    .describe("Curated models, any of which a request may name"),
  loaded: z
    .string()
    .nullable()
    .describe("The checkpoint of this gateway's last request since it started; null: none yet"),
});
export type DrawsView = z.output<typeof drawsViewSchema>;

/** One slot with its history. */
export const slotDetailSchema = slotViewSchema.extend({
  on_request: choiceViewSchema.nullish().describe("Of a slot whose model requests choose"),
  transitions: z.array(transitionSchema),
  spec: slotSpecSchema,
  draws: drawsViewSchema.nullish().describe("Of an image slot, in the record of one slot; null: another kind of slot"),
});
export type SlotDetail = z.output<typeof slotDetailSchema>;

export type PlanView = z.output<typeof planViewSchema>;
export const planViewSchema = z.strictObject({ slot: z.string(), plan: planSchema, text: z.string() });

export const modelViewSchema = z.strictObject({
  id: z.string(),
  size_bytes: z.int().min(0).nullable(),
  /** The backend of the slot that holds the model; null without such a slot, since a backend is decided per slot. */
  backend: z.string().nullable(),
  capabilities: modelRecordSchema.shape.capabilities.unwrap(),
  license: z.string().nullable(),
  license_url: z.string().nullable(),
  source: z.string(),
  sha256: z.string().nullable(),
  path: z.string().nullable(),
  slots: z.array(z.string()),
  last_benchmark: modelBenchmarkSchema,
  state: z.enum(["available", "assigned", "missing", "unsupported", "invalid"]),
  message: z.string().nullable(),
  architecture: z.string().nullable(),
  context_length: z.int().nullable(),
  parameters: z.int().nullable(),
  quantization: z.string().nullable(),
  pooling: z.string().nullable(),
  origin: modelRecordSchema.shape.origin,
  file: z.string().nullable().describe("The manifest that declares it; null: none"),
  conditions: z
    .array(conditionSchema)
    .describe("Conditions of the manifest that declares it, also of one that was never valid"),
});
export type ModelView = z.output<typeof modelViewSchema>;

export const hardwareViewSchema = hardwareSchema.extend({
  pending: z.boolean().describe("Another probe was requested and has not ended"),
  now: machineReadingSchema
    .nullable()
    .describe(
      "Read by this gateway within the last five seconds; the event `machine` has the same, each five seconds, while somebody follows `/api/events`. Null: in a cluster engines run on other machines",
    ),
});
export type HardwareView = z.output<typeof hardwareViewSchema>;

export const upstreamViewSchema = z.strictObject({
  name: z.string(),
  spec: upstreamSpecSchema.nullable().describe("The spec in force; null: its manifest was never valid"),
  circuit: z.enum(["closed", "open", "halfOpen"]),
  in_flight: count,
  queued: count,
  models: count,
  problem: z.string().nullable().describe("The message of the first condition that needs a person"),
  file: z.string().nullable(),
  conditions: z.array(conditionSchema),
});

export type UpstreamRow = z.output<typeof upstreamViewSchema>;

export const upstreamCheckSchema = z.strictObject({
  name: z.string(),
  ok: z.boolean(),
  milliseconds: count,
  models: count.nullable().describe("The number of listed models; null without a list"),
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

/** The value as plain JSON. Throws ZodError for anything that JSON cannot hold. */
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
export const targetsSchema = z.array(
  z.strictObject({ targets: z.array(z.string()), labels: z.record(z.string(), z.string()) }),
);
export const featuresSchema = z.record(z.string(), z.boolean());
