import { z } from "zod";
import { backends, engineKinds } from "./names.ts";

/** What a machine has, as `/api/hardware` answers it and as the state directory holds it: snake_case in both. */

/** A place that was looked at, and what it said. */
const evidenceSchema = z.strictObject({ source: z.string(), says: z.string() });
export type Evidence = z.output<typeof evidenceSchema>;

const evidence = z.array(evidenceSchema).describe("Where it comes from, and what could not be read");
/** Less room than this for status, logs and models is a problem soon. */
export const freeBytesMin = 1024 ** 3;

const bytes = z.int().min(0).nullable();
const text = z.string().nullable();
const backend = z.enum(backends).exclude(["auto"]);

const cpuSchema = z.strictObject({
  model: text,
  architecture: z.string(),
  cores: z.int().min(1).nullable().describe("Physical cores"),
  threads: z.int().min(1).nullable().describe("What the system can run at once"),
  usable: z
    .number()
    .positive()
    .nullable()
    .describe("Of these, what the operator's affinity and control group leave to it and to engines that are processes"),
  features: z.array(z.string()).describe("Instruction sets that matter to engines"),
  evidence,
});
export type Cpu = z.output<typeof cpuSchema>;

const memorySchema = z.strictObject({
  total_bytes: bytes,
  available_bytes: bytes,
  swap_bytes: bytes,
  limit_bytes: bytes.describe("Of the operator's control group, which engines share that are processes; null: none"),
  usable_bytes: bytes.describe("The lesser of total and limit"),
  evidence,
});
export type Memory = z.output<typeof memorySchema>;

const gpuSchema = z.strictObject({
  id: z.string().describe("PCI address, or the system's name of what is not on PCI"),
  vendor: z.enum(["amd", "intel", "nvidia", "other"]),
  vendor_id: text,
  device_id: text,
  name: text,
  architecture: text.describe("AMD: what ROCm calls it, e.g. gfx1103"),
  integrated: z.boolean().nullable().describe("Null: not known"),
  driver: text,
  memory_bytes: bytes.describe("Its own memory; null: not known, or it has none"),
  memory_usable_bytes: bytes.optional().describe("Of it, what is left beside the driver's own; null: not known"),
  memory_free_bytes: bytes.optional().describe("At the time of the look; null: not known"),
  compute_capability: text.optional().describe("NVIDIA: e.g. 9.0"),
  cuda_version: text.optional().describe("NVIDIA: what the driver can run, e.g. 13.0"),
  mig: z.boolean().nullable().optional().describe("NVIDIA: the GPU is divided into instances; null: not known"),
  shared_memory_bytes: bytes.describe("Of the machine's memory, what it may use"),
  render_node: text,
  backends: z.array(backend).describe("What devices of this machine allow on it"),
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
  mode: z.string().describe("As chmod takes it, e.g. 0660"),
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
  free_bytes: bytes.describe("What the operator's user may fill"),
  evidence,
});
export type Disk = z.output<typeof diskSchema>;

const driverSchema = z.strictObject({
  name: z.string(),
  kind: z.enum(["kernel", "library"]),
  version: text.describe("Null: it has none of its own, as most drivers of the kernel"),
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

/** What was found, before anything is concluded from it. */
export type HardwareFacts = z.output<typeof hardwareFactsSchema>;
const hardwareFactsSchema = z.strictObject({
  probed_at: z.iso.datetime(),
  user: z.string().describe("Whose rights were tried: the operator's, or those of who ran `berth probe`"),
  kernel: text,
  cpu: cpuSchema,
  memory: memorySchema,
  gpus: z.array(gpuSchema),
  npu: npuSchema.nullable(),
  devices: z.array(deviceSchema),
  disks: z.array(diskSchema),
  drivers: z.array(driverSchema),
  problems: z.array(evidenceSchema).describe("What could not be looked at, of devices and drivers"),
});

export const hardwareSchema = hardwareFactsSchema.extend({
  suggested: z.record(z.enum(engineKinds), suggestionSchema).describe("By engine"),
});
export type Hardware = z.output<typeof hardwareSchema>;

/** `<state>/hardware/found.json`: the operator's. */
export const publishedHardwareSchema = z.strictObject({
  schema: z.literal(1),
  /** Token of the request that this look answers. */
  answers: z.string().optional(),
  hardware: hardwareSchema,
});
export type PublishedHardware = z.output<typeof publishedHardwareSchema>;

/** `<state>/hardware/request.json`: a gateway's; done once the operator's file answers its token. */
export const probeRequestSchema = z.strictObject({
  schema: z.literal(1),
  token: z.string(),
  requestedAt: z.iso.datetime(),
});
export type ProbeRequest = z.output<typeof probeRequestSchema>;
