import { z } from "zod";
import { backends, engineKinds } from "./names.ts";

/** The hardware of a machine, as `/api/hardware` answers and as the state directory holds it: snake_case in both. */

/** A source that was read, and its content. */
const evidenceSchema = z.strictObject({ source: z.string(), says: z.string() });
export type Evidence = z.output<typeof evidenceSchema>;

const evidence = z.array(evidenceSchema).describe("The sources, and those that could not be read");
/** With less free space than this, status, logs and models soon fail to be written. */
export const freeBytesMin = 1024 ** 3;

const bytes = z.int().min(0).nullable();
const text = z.string().nullable();
const backend = z.enum(backends).exclude(["auto"]);

const cpuSchema = z.strictObject({
  model: text,
  architecture: z.string(),
  cores: z.int().min(1).nullable().describe("Physical cores"),
  engine_cores: z
    .int()
    .min(1)
    .optional()
    .describe(
      "Physical cores for engines, where these are not all: of the faster kind, within the operator's affinity",
    ),
  threads: z.int().min(1).nullable().describe("Hardware threads"),
  usable: z
    .number()
    .positive()
    .nullable()
    .describe("The part that the operator's affinity and control group allow to it and to engines that are processes"),
  features: z.array(z.string()).describe("Instruction sets that engines use"),
  evidence,
});
export type Cpu = z.output<typeof cpuSchema>;

const memorySchema = z.strictObject({
  total_bytes: bytes,
  available_bytes: bytes,
  contiguous_free_bytes: bytes
    .optional()
    .describe("Of what is available, set aside for devices (CMA): no engine can have it"),
  swap_bytes: bytes,
  limit_bytes: bytes.describe(
    "Limit of the operator's control group, which engines share that are processes; null: none",
  ),
  usable_bytes: bytes.describe("The lesser of total and limit"),
  evidence,
});
export type Memory = z.output<typeof memorySchema>;

const gpuSchema = z.strictObject({
  id: z.string().describe("PCI address, or the system's name of a device that is not on PCI"),
  vendor: z.enum(["amd", "intel", "nvidia", "other"]),
  vendor_id: text,
  device_id: text,
  name: text,
  architecture: text.describe("AMD: ROCm's name for it, e.g. gfx1103"),
  integrated: z.boolean().nullable().describe("Null: not known"),
  driver: text,
  memory_bytes: bytes.describe("Its own memory; null: not known, or it has none"),
  memory_usable_bytes: bytes.optional().describe("The part of it that the driver does not keep; null: not known"),
  memory_free_bytes: bytes.optional().describe("At the time of the probe; null: not known"),
  compute_capability: text.optional().describe("NVIDIA: e.g. 9.0"),
  cuda_version: text.optional().describe("NVIDIA: the newest version that the driver supports, e.g. 13.0"),
  mig: z.boolean().nullable().optional().describe("NVIDIA: the GPU is divided into instances; null: not known"),
  shared_memory_bytes: bytes.describe("The part of the machine's memory that it may use"),
  shared_memory_used_bytes: bytes
    .optional()
    .describe("The used part of that at the time of the probe; null: not known"),
  render_node: text,
  backends: z.array(backend).describe("The backends that this machine's devices allow on it"),
  evidence,
});
export type Gpu = z.output<typeof gpuSchema>;

const npuSchema = z.strictObject({
  vendor: z.enum(["amd", "intel", "other"]),
  vendor_id: text,
  device_id: text,
  name: text,
  driver: text,
  device: text,
  evidence,
});
export type Npu = z.output<typeof npuSchema>;

const deviceSchema = z.strictObject({
  path: z.string(),
  mode: z.string().describe("Permission bits, e.g. 0660"),
  uid: z.int(),
  gid: z.int(),
  group: text,
  accessible: z.boolean().describe("The operator's user may read and write it; containers get its group in any case"),
  problem: text,
});
export type DeviceNode = z.output<typeof deviceSchema>;

const diskSchema = z.strictObject({
  use: z.enum(["state", "models"]),
  path: z.string(),
  total_bytes: bytes,
  free_bytes: bytes.describe("The space that the operator's user may use"),
  evidence,
});
export type Disk = z.output<typeof diskSchema>;

const driverSchema = z.strictObject({
  name: z.string(),
  kind: z.enum(["kernel", "library"]),
  version: text.describe("Null: none of its own, as for most drivers of the kernel"),
  source: z.string(),
});
export type Driver = z.output<typeof driverSchema>;

const suggestionSchema = z.strictObject({
  backend: backend.describe('What backend = "auto" takes'),
  reason: z.string(),
  available: z.boolean().describe("Every device that it needs is there"),
  obstacles: z.array(z.string()),
  evidence,
});
export type Suggestion = z.output<typeof suggestionSchema>;

/** The facts that were read, without conclusions. */
export type HardwareFacts = z.output<typeof hardwareFactsSchema>;
const hardwareFactsSchema = z.strictObject({
  probed_at: z.iso.datetime(),
  user: z.string().describe("The user whose rights were tried: the operator's, or that of `berth probe`"),
  kernel: text,
  cpu: cpuSchema,
  memory: memorySchema,
  gpus: z.array(gpuSchema),
  npu: npuSchema.nullable(),
  devices: z.array(deviceSchema),
  disks: z.array(diskSchema),
  drivers: z.array(driverSchema),
  problems: z.array(evidenceSchema).describe("Devices and drivers that could not be read"),
});

export const hardwareSchema = hardwareFactsSchema.extend({
  suggested: z.record(z.enum(engineKinds), suggestionSchema).describe("By engine"),
});
export type Hardware = z.output<typeof hardwareSchema>;

/** `<state>/hardware/found.json`, written by the operator. */
export const publishedHardwareSchema = z.strictObject({
  schema: z.literal(1),
  /** Token of the request that this probe answers. */
  answers: z.string().optional(),
  hardware: hardwareSchema,
});
export type PublishedHardware = z.output<typeof publishedHardwareSchema>;

/** `<state>/probe-requests/request.json`, written by a gateway; done once the operator's file answers its token. */
export const probeRequestSchema = z.strictObject({
  schema: z.literal(1),
  token: z.string(),
  requestedAt: z.iso.datetime(),
});
export type ProbeRequest = z.output<typeof probeRequestSchema>;
