import { z } from "zod";
import { imageReference } from "./image-reference.ts";
import {
  backends,
  engineKinds,
  isBuiltin,
  llamaPrograms,
  modelRefSchema,
  runtimeKinds,
  slotCapabilities,
  slotPorts,
  type BuiltinSlot,
  type EngineKind,
  type SlotCapability,
} from "./names.ts";
import { slotModelSchema } from "./slot-model.ts";

const positive = z.int().min(1);
/** A replica costs a status entry, a port of the host and a probe every few seconds; one machine runs far fewer. */
const replicaLimit = 64;
const seconds = z.int().min(0).max(31_536_000);

/** A secret by its location, never by value. */
export const valueFromSchema = z.union([
  z.strictObject({ file: z.string().min(1).describe("Absolute path of a file that holds the value") }),
  z.strictObject({
    secretKeyRef: z
      .strictObject({ name: z.string().min(1), key: z.string().min(1) })
      .describe("Key of a Kubernetes Secret; not in this version"),
  }),
]);

export const envNameSchema = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "a name like HTTP_PROXY");
export const envValueSchema = z.union([z.string(), z.strictObject({ valueFrom: valueFromSchema })]);

const probeSchema = z.strictObject({
  path: z.string().startsWith("/").optional().describe("Health path; absent: the engine's own"),
  startupSeconds: positive.max(86_400).default(600).describe("Longest time from start to healthy"),
  intervalSeconds: positive.max(3600).default(5).describe("Time between two probes"),
  timeoutSeconds: positive.max(600).default(3).describe("Longest answer to one probe"),
  failures: positive.max(100).default(3).describe("Failed probes in a row that restart an engine"),
  hungSeconds: positive.max(86_400).default(300).describe("With a request in flight: silence before a restart"),
});

/** A domain that is not Kubernetes' own, a slash, a name. */
const extendedResource = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?\/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/;

const claimSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, "lower case letters, digits and dashes")
    .describe("Name of the claim within the Pod"),
  resourceClaimName: z.string().min(1).optional().describe("An existing ResourceClaim, which other slots may name too"),
  resourceClaimTemplateName: z.string().min(1).optional().describe("A template: each Pod has a claim of its own"),
  request: z.string().min(1).optional().describe("One request of the claim; absent: all of its devices"),
});

/**
 * The `spec` of a Slot; docs/reference.md describes each field. Defaults that depend on the name come from
 * `completeSlot`.
 */
export const slotSpecSchema = z.strictObject({
  enabled: z.boolean().default(true).describe("false: nothing runs and requests get slot.disabled"),
  engine: z.enum(engineKinds).optional().describe("Adapter; absent: by slot name (stt, tts, img → image, else llama)"),
  backend: z.enum(backends).optional().describe("Compute backend; absent: auto (img: rocm)"),
  runtime: z.enum(runtimeKinds).default("auto").describe("The runtime of the engine"),
  program: z
    .enum(llamaPrograms)
    .optional()
    .describe("Runs a llama slot as a process of this program; absent: llama-server where there is one"),
  model: slotModelSchema.prefault({}).describe("What the slot holds, and how its engine runs it"),
  capabilities: z
    .array(z.enum(slotCapabilities))
    .min(1)
    .max(slotCapabilities.length)
    .optional()
    .describe("Routes the slot answers; absent: by engine and model"),
  // No default: a field that every spec has would change the spec hash of every slot at an update.
  replicas: z
    .int()
    .min(1)
    .max(replicaLimit)
    .optional()
    .describe("Number of equal engines that share this slot's requests; absent: 1"),
  load: z.enum(["always", "onDemand"]).default("always").describe("onDemand: loaded by requests, unloaded when idle"),
  idleSeconds: seconds.default(600).describe("On-demand slots: idle time before unloading, 0 never"),
  image: z
    .string()
    .regex(imageReference, "no name of an image: like ghcr.io/owner/name:tag, in lower case and without spaces")
    .optional()
    .describe("Container image instead of the engine's own"),
  imageDigest: z
    .string()
    .regex(/^sha256:[0-9a-f]{64}$/, "sha256: and 64 hexadecimal digits")
    .optional()
    .describe("Digest of the image; takes precedence over its tag"),
  command: z.array(z.string()).min(1).optional().describe("Replaces the adapter's program and arguments"),
  args: z.array(z.string()).default([]).describe("Appended to the engine's arguments"),
  env: z
    .record(envNameSchema, envValueSchema)
    .default({})
    .describe("Environment of the engine: texts, or valueFrom a file, or a key of a Secret, for Pods alone"),
  workingDir: z.string().startsWith("/").optional().describe("Directory the engine starts in"),
  mounts: z
    .array(
      z.strictObject({
        source: z.string().startsWith("/").describe("Path on the host"),
        target: z.string().startsWith("/").describe("Path in the container"),
        readOnly: z.boolean().default(true).describe("false: the engine may write there"),
      }),
    )
    .default([])
    .describe("Directories and files for a container"),
  devices: z.array(z.string().startsWith("/dev/")).default([]).describe("Device files for a container"),
  shmSizeBytes: positive.optional().describe("Size of a container's /dev/shm"),
  port: z.int().min(slotPorts.first).max(slotPorts.last).optional().describe("Fixed host port; absent: automatic"),
  probe: probeSchema.prefault({}).describe("Checks of the engine's health"),
  stopSeconds: z.int().min(0).max(3600).default(30).describe("Time between TERM and KILL"),
  concurrency: z
    .strictObject({
      max: z
        .int()
        .min(0)
        .max(100_000)
        .optional()
        .describe("Requests at once at each replica, 0 unlimited; absent: the engine's own parallel number"),
      queue: z.int().min(0).max(1_000_000).default(64).describe("Requests that may wait; more get 429"),
    })
    .prefault({})
    .describe("Requests at once, and requests that wait"),
  timeoutSeconds: z
    .strictObject({
      firstByte: seconds.default(1800).describe("Longest wait for the first byte of an answer, 0 none"),
      idle: seconds.default(300).describe("Longest silence between bytes of an answer, 0 none"),
    })
    .prefault({})
    .describe("Limits on an answer's time"),
  resources: z
    .strictObject({
      memoryBytes: positive
        .optional()
        .describe("Memory of each process: a container's limit, and the least that the fit check and a group count"),
      cpus: z.number().positive().optional().describe("CPU limit of a container, in cores"),
      gpus: z.int().min(0).optional().describe("GPUs that a container is given"),
      extended: z
        .record(
          z
            .string()
            .regex(extendedResource, "a name like gpu.intel.com/xe")
            .refine((name) => !/^([a-z0-9-]+\.)*kubernetes\.io\//.test(name), "a name like gpu.intel.com/xe"),
          positive,
        )
        .optional()
        .describe("Extended resources that a Pod asks device plugins for, such as amd.com/gpu, with their number"),
      claims: z
        .array(claimSchema)
        .optional()
        .describe("ResourceClaims that a Pod uses; several slots may share one ResourceClaim of the namespace"),
    })
    .default({})
    .describe("Limits of a container"),
  aliases: z.array(modelRefSchema).default([]).describe("More names that clients may use"),
  request: z
    .strictObject({
      set: z.record(z.string().min(1), z.json()).default({}).describe("JSON body fields to set; a trailing ! forces"),
      strip: z.array(z.string().min(1)).default([]).describe("JSON body fields to remove"),
    })
    .prefault({})
    .describe("Changes of each request's body"),
  group: z
    .string()
    .regex(/^[^/]{1,64}$/, "at most 64 characters, without a slash")
    .optional()
    .describe("The SlotGroup whose budget the slot shares; without one of that name, the memory of its device"),
  priority: z.int().min(-1000).max(1000).default(0).describe("Within a group: the lowest is unloaded first"),
  pinned: z.boolean().default(false).describe("Within a group: never unloaded for another slot"),
  podTemplate: z
    .record(z.string(), z.json())
    .optional()
    .describe("Merged over the generated Pod, as kubectl patch merges: metadata and spec of a Pod; for Pods alone"),
});
export type SlotSpecInput = z.input<typeof slotSpecSchema>;
export type ParsedSlotSpec = z.output<typeof slotSpecSchema>;

/** A spec with all defaults filled in, also those that depend on the slot's name. */
export interface SlotSpec extends ParsedSlotSpec {
  readonly engine: EngineKind;
  readonly backend: NonNullable<ParsedSlotSpec["backend"]>;
}

/** The engines that each built-in slot may run; the first is its default. */
export const enginesOfBuiltin = {
  primary: ["llama", "npu", "custom"],
  embed: ["llama", "npu", "custom"],
  stt: ["stt", "npu", "custom"],
  tts: ["tts", "custom"],
  img: ["image", "custom"],
} as const satisfies Record<BuiltinSlot, readonly [EngineKind, ...EngineKind[]]>;

/** The capabilities that each engine can have; a custom engine can have all. */
export const capabilitiesOfEngine = {
  llama: ["chat", "completions", "embeddings", "rerank", "vision", "responses", "messages"],
  npu: ["chat", "completions", "embeddings", "transcription", "vision", "responses", "messages"],
  stt: ["transcription"],
  tts: ["speech"],
  image: ["image"],
} as const satisfies Readonly<Record<Exclude<EngineKind, "custom">, readonly SlotCapability[]>>;

/** Engines that a manifest's own `command` replaces wholly: Berth translates nothing for them. */
export const replaceableEngines: readonly EngineKind[] = ["llama", "npu"];

/** The engine of a slot whose manifest names none. */
export function defaultEngine(name: string): EngineKind {
  return isBuiltin(name) ? enginesOfBuiltin[name][0] : "llama";
}

export interface FieldProblem {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/** The rules that hold between fields, or between a field and the slot's name. Empty when all hold. */
export function slotRules(name: string, spec: ParsedSlotSpec): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const engine = spec.engine ?? defaultEngine(name);
  const allowed: readonly EngineKind[] = isBuiltin(name) ? enginesOfBuiltin[name] : engineKinds;
  if (!allowed.includes(engine)) {
    problems.push({ path: ["engine"], message: `slot ${name} runs ${allowed.join(", ")}, not ${engine}` });
  }
  if (engine === "custom" && spec.command === undefined && spec.image === undefined && spec.enabled) {
    problems.push({ path: ["command"], message: "a custom engine needs command, or image for containers" });
  }
  problems.push(...capabilityProblems(engine, spec));
  if (spec.enabled && spec.model.default === undefined && engine !== "custom") {
    problems.push({ path: ["model", "default"], message: "an enabled slot needs the model it holds" });
  }
  if (spec.model.rerank !== undefined && engine !== "llama") {
    problems.push({ path: ["model", "rerank"], message: "only a llama slot runs a second process for reranking" });
  }
  const isOurs = engine === "llama" && spec.command === undefined;
  if (spec.model.keepContext !== undefined && !isOurs) {
    const message = "only llama-server, as Berth starts it, can keep its context: a llama slot without command";
    problems.push({ path: ["model", "keepContext"], message });
  }
  const mayBeProcess = spec.image === undefined && ["auto", "process"].includes(spec.runtime);
  if (spec.program !== undefined && !(isOurs && mayBeProcess)) {
    const message = "is for a llama slot that runs as a process, without command and image";
    problems.push({ path: ["program"], message });
  }
  if (spec.load === "always" && spec.pinned && spec.group === undefined)
    problems.push({ path: ["pinned"], message: "pinned says something only within a group" });
  for (const [key, value] of Object.entries(spec.request.set)) {
    if (!isRounded(value)) continue;
    const message = `holds a whole number beyond ${Number.MAX_SAFE_INTEGER}, which would reach the engine rounded`;
    problems.push({ path: ["request", "set", key], message });
  }
  if (new Set(spec.aliases).size !== spec.aliases.length)
    problems.push({ path: ["aliases"], message: "an alias is listed twice" });
  if (spec.aliases.includes(name)) {
    problems.push({ path: ["aliases"], message: `${name} is already the slot's own name` });
  }
  return problems;
}

/** Whether a number within the value may be another one than its author wrote. TOML refuses such a number itself. */
function isRounded(value: unknown): boolean {
  if (typeof value === "number") return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === "object" && value !== null && Object.values(value).some(isRounded);
}

function capabilityProblems(engine: EngineKind, spec: ParsedSlotSpec): FieldProblem[] {
  if (engine === "custom" || (spec.command !== undefined && replaceableEngines.includes(engine))) return [];
  const allowed: readonly SlotCapability[] = capabilitiesOfEngine[engine];
  return (spec.capabilities ?? []).flatMap((capability, index) =>
    allowed.includes(capability)
      ? []
      : [
          {
            path: ["capabilities", index],
            message: `the ${engine} engine has no ${capability}, only ${allowed.join(", ")}`,
          },
        ],
  );
}

/** Fills in the defaults that depend on the name, or on another field. */
export function completeSlot(name: string, spec: ParsedSlotSpec): SlotSpec {
  return {
    ...spec,
    engine: spec.engine ?? defaultEngine(name),
    backend: spec.backend ?? (name === "img" ? "rocm" : "auto"),
    // Only a process has a program.
    runtime: spec.runtime === "auto" && spec.program !== undefined ? "process" : spec.runtime,
  };
}

/** The spec of a slot that has none: disabled. The five built-in slots are there without a file, with the reason NotConfigured. */
export function unconfiguredSlot(name: string): SlotSpec {
  return completeSlot(name, slotSpecSchema.parse({ enabled: false }));
}
