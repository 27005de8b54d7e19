import { z } from "zod";
import { runtimeKinds, slotNameSchema, slotPorts } from "./names.ts";
import { isLibrarys } from "./plain-issue.ts";
import {
  basePathSchema,
  bool,
  bytesSchema,
  list,
  origins,
  part,
  plainUrlSchema,
  podVolumeSchema,
  portsSchema,
  standardReceiver,
  whole,
} from "./config-values.ts";
import { defaultConfigDir, defaultStateDir, type ConfigPlaces } from "./config-places.ts";
import { problemsOf } from "./problems.ts";
import { didYouMean, nearest } from "./nearest.ts";

/**
 * Every setting: `SVC_<NAME>` in the environment, the same word in snake_case in `<config>/berth.toml`. CONTRACT
 * "Configuration" is the source. A key ends in its unit.
 */
export const configShape = {
  port: whole(0, 65_535).default(8080).describe("Port of the public API"),
  host: z.string().min(1).optional().describe("Address of the public API; absent: 0.0.0.0, in auth mode 127.0.0.1"),
  authEnabled: bool.default(false).describe("Tokens are required"),
  trustedProxies: list
    .pipe(z.array(z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], "addresses or blocks such as 10.0.0.0/8")))
    .default(["127.0.0.0/8", "::1/128"])
    .describe("Peers whose X-Forwarded-Email counts in auth mode"),
  operatorPort: whole(0, 65_535).default(8079).describe("Port of the operator's metrics, livez and readyz"),
  operatorHost: z
    .string()
    .min(1)
    .default("127.0.0.1")
    .describe("Address of that port, which asks for no token; another one only in a Pod, for the kubelet's probes"),
  hostname: z.string().min(1).default("svc.local").describe("Name of the edge proxy"),
  tlsEmail: z.string().optional().describe("Contact address for ACME"),
  adminUser: z.string().optional().describe("User of the edge proxy's basic auth"),
  adminPassword: z.string().optional().describe("Password for a non-interactive install; stored as bcrypt only"),
  stateDir: z
    .string()
    .startsWith("/")
    .optional()
    .describe("Published status, demand, logs; absent: /var/lib/berth as root, else XDG"),
  modelsDir: z.string().startsWith("/").optional().describe("Model files; absent: <state>/models"),
  store: z
    .enum(["files", "kubernetes"])
    .default("files")
    .describe("Desired and published state: files, or the custom resources of one namespace"),
  runtime: z.enum(runtimeKinds).default("auto").describe("The runtime of slots with runtime auto"),
  holdSeconds: whole(0, 86_400)
    .default(180)
    .describe("Longest time a request waits for a cold slot; 0 answers at once"),
  bodyLimit: bytesSchema.default(64 * 1024 ** 2).describe("Largest request body"),
  chatPort: whole(0, 65_535)
    .default(3001)
    .describe("Port of the chat page, which is also at /chat/ of the API; 0: no port of its own"),
  basePath: basePathSchema.default("").describe("Path that a proxy keeps before every other, such as /berth"),
  enginePages: list
    .pipe(z.array(slotNameSchema))
    .default([])
    .describe("Slots whose engine's own page is at /upstream/SLOT/ of a port of its own; absent: none"),
  enginePagesPort: whole(1, 65_535).default(3002).describe("Port of engines' own pages, where enginePages names slots"),
  logLevel: z
    .enum(["fatal", "error", "warn", "info", "debug", "trace", "silent"])
    .default("info")
    .describe("Least severe line that is logged"),
  accessLogPart: part
    .default(1)
    .describe("The part of answered requests with a line in the access log; others have one"),
  requestBodies: bool
    .default(false)
    .describe("/api/requests shows the bodies of the last requests to admins, without what looks like a secret"),
  tracesEndpoint: plainUrlSchema
    .optional()
    .describe(
      "Base address of an OTLP/HTTP receiver of traces, such as http://127.0.0.1:4318; absent: OTEL_EXPORTER_OTLP_ENDPOINT, else none",
    ),
  tracesPart: part.default(0.1).describe("Part of requests that are traced where the client has not decided"),
  apiExec: bool.default(false).describe("The API may write fields that run code, such as command"),
  allowedHosts: list.default([]).describe("More Host names that /api and /models accept"),
  corsOrigins: origins
    .default([])
    .describe(
      "Origins whose pages may call /v1 from a browser, patterns such as https://*.example and http://localhost:*, or *; absent: none",
    ),
  engineUser: z.string().optional().describe("USER or USER:GROUP that runs engines when Berth runs as root"),
  bufferLimit: bytesSchema
    .default(512 * 1024 ** 2)
    .describe("Memory of all bodies until their engine has answered, whole answers, shared streams and reader buffers"),
  spoolLimit: bytesSchema
    .default(1024 ** 3)
    .describe("Disk space of all uploads until they are answered; 0: no uploads"),
  pullBandwidth: bytesSchema.default(0).describe("Bytes a second that fetching models may take; 0: no limit"),
  diskReserve: bytesSchema
    .default(1024 ** 3)
    .describe("Free disk space that fetched models and saved contexts leave free"),
  drainSeconds: whole(0, 3600).default(30).describe("Time that open requests get on SIGTERM"),
  slotPorts: portsSchema
    .default(slotPorts)
    .describe("Ports of engines, such as 8081-8099; another range only so that several instances share a machine"),
  llamaServer: z
    .string()
    .optional()
    .describe("Path of a llama-server binary; absent: the one on PATH, else the embedded engine"),
  dockerHost: z
    .string()
    .regex(/^unix:\/\/\/.+/, "a socket of this machine, as unix:///run/docker.sock")
    .optional()
    .describe("Socket of Docker or Podman; absent: DOCKER_HOST, else unix:///var/run/docker.sock"),
  podModels: podVolumeSchema
    .optional()
    .describe(
      "Volume of Pods that is the models directory, claim:NAME or path:/DIRECTORY; absent: path: and modelsDir",
    ),
  podVolumes: list
    .pipe(z.array(podVolumeSchema))
    .default([])
    .describe("Volumes that Pods of slots may mount beside the models, each claim:NAME or path:/DIRECTORY of the node"),
  podLabels: list
    .default([])
    .describe("Labels and annotations that a podTemplate may set, such as team or kueue.x-k8s.io/ for all below it"),
  llamaImage: z.string().min(1).optional().describe("Image that runs llama slots instead of the shipped ones"),
  unrestrictedContainers: bool
    .default(false)
    .describe(
      "Containers and Pods of slots may have any mount, device, field and right: who writes slots then has the machine",
    ),
  allowProcesses: bool
    .default(false)
    .describe(
      "In a cluster slots may run as processes beside the operator, with its rights; elsewhere they always may",
    ),
  secretsDir: z
    .string()
    .startsWith("/")
    .optional()
    .describe(
      "Directory that valueFrom.file reads; absent: in a cluster <config>/secrets, elsewhere any but Berth's own files",
    ),
  updateUrl: plainUrlSchema.optional().describe("Index of releases for berth update; absent: the release's own"),
  updateKey: z.string().min(1).optional().describe("minisign key that signs releases; absent: the release's own"),
  readOnly: bool.default(false).describe("The API never writes the configuration directory"),
} as const;

const configSchema = z.strictObject(configShape);
export type ConfigKey = keyof typeof configShape;
export type Config = z.output<typeof configSchema> & {
  readonly configDir: string;
  readonly stateDir: string;
  readonly modelsDir: string;
  readonly host: string;
};
export type ConfigOrigin = "default" | "environment" | "file";

/** Keys that hold secrets: masked wherever a configuration is shown. */
export const secretConfigKeys = ["adminPassword"] as const satisfies readonly ConfigKey[];

/** Variables of the environment that are not settings: those of the command line, and the directories. */
const otherKeys = ["SVC_URL", "SVC_TOKEN", "SVC_CONFIG_DIR"];
/** Variables that Kubernetes injects for a Service called `svc`. */
const injectedKeys = /^SVC_(SERVICE_(HOST|PORT(_.*)?)|PORT_\d+_(TCP|UDP)(_.*)?)$/;

/** `SVC_STATE_DIR` of `stateDir`. */
export function environmentName(key: ConfigKey): string {
  return `SVC_${key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

/** `state_dir` of `stateDir`. */
export function tomlName(key: ConfigKey): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

export interface ConfigProblem {
  readonly key: string;
  readonly message: string;
}

export interface LoadedConfig {
  /** Undefined when there are problems. */
  readonly config: Config | undefined;
  readonly origins: Readonly<Record<string, ConfigOrigin>>;
  readonly problems: readonly ConfigProblem[];
  readonly warnings: readonly string[];
}

/**
 * Merges environment over file over defaults. Pure: callers read the environment and `berth.toml`.
 * A bad value, or an unknown `SVC_` key close to a known one, is a problem; other unknown keys warn.
 */
export function loadConfig(
  environment: Readonly<Record<string, string | undefined>>,
  file: Readonly<Record<string, unknown>>,
  places: ConfigPlaces,
): LoadedConfig {
  const problems: ConfigProblem[] = [];
  const warnings: string[] = [];
  const origins: Record<string, ConfigOrigin> = {};
  const values: Record<string, unknown> = {};
  const keys: readonly ConfigKey[] = configSchema.keyof().options;
  const byEnvironment = new Map(keys.map((key) => [environmentName(key), key]));
  const byToml = new Map(keys.map((key) => [tomlName(key), key]));

  for (const [name, value] of Object.entries(file)) {
    const key = byToml.get(name);
    if (key === undefined) {
      problems.push({ key: `berth.toml ${name}`, message: `is not a setting${hint(name, [...byToml.keys()])}` });
    } else read(key, value, "file", `berth.toml ${name}`);
  }
  for (const [name, value] of Object.entries(environment)) {
    if (!name.startsWith("SVC_") || value === undefined || otherKeys.includes(name)) continue;
    if (injectedKeys.test(name) || (name === "SVC_PORT" && /^(tcp|udp):\/\//.test(value))) {
      warnings.push(`${name} looks injected by Kubernetes for a Service called svc and is ignored`);
      continue;
    }
    const key = byEnvironment.get(name);
    if (key !== undefined) {
      // Shells and unit files unset a variable by an empty value.
      if (value !== "") read(key, value, "environment", name);
      continue;
    }
    const close = hint(name, [...byEnvironment.keys(), ...otherKeys]);
    if (close === "") warnings.push(`${name} is not a setting and is ignored`);
    else problems.push({ key: name, message: `is not a setting${close}` });
  }

  const receiver = origins["tracesEndpoint"] === undefined ? standardReceiver(environment) : undefined;
  // Set for many programs at once: what does not fit here must not stop the start.
  if (receiver !== undefined && !configShape.tracesEndpoint.safeParse(receiver.url).success)
    warnings.push(`${receiver.name} is no address that Berth can send traces to, and is ignored`);
  else if (receiver !== undefined) read("tracesEndpoint", receiver.url, "environment", receiver.name);

  function read(key: ConfigKey, value: unknown, origin: ConfigOrigin, label: string): void {
    const parsed = configShape[key].safeParse(value);
    if (parsed.success) {
      values[key] = parsed.data;
      origins[key] = origin;
    } else {
      problems.push({
        key: label,
        message: wanted([...new Set(problemsOf(parsed.error).map((problem) => problem.message))].join("; ")),
      });
    }
  }

  const configDir = environment["SVC_CONFIG_DIR"] || defaultConfigDir(places);
  const settled = configSchema.safeParse(values);
  const stateDir = (settled.success ? settled.data.stateDir : undefined) ?? defaultStateDir(places);
  if (configDir === undefined) {
    problems.push({ key: "SVC_CONFIG_DIR", message: "must be set: there is no HOME to find a configuration in" });
  } else if (!configDir.startsWith("/")) {
    problems.push({ key: "SVC_CONFIG_DIR", message: "must be an absolute path" });
  }
  if (stateDir === undefined) {
    problems.push({ key: "SVC_STATE_DIR", message: "must be set: there is no HOME to keep state in" });
  }
  if (settled.success && !mayRunProcesses(settled.data) && settled.data.runtime === "process") {
    problems.push({ key: "SVC_RUNTIME", message: "may be process in a cluster only with SVC_ALLOW_PROCESSES=1" });
  }
  if (settled.success && settled.data.slotPorts.first > settled.data.slotPorts.last) {
    problems.push({ key: "SVC_SLOT_PORTS", message: "ends before it begins" });
  }
  for (const key of keys) origins[key] ??= "default";
  if (problems.length > 0 || !settled.success || configDir === undefined || stateDir === undefined) {
    return { config: undefined, origins, problems, warnings };
  }
  const { store, runtime, secretsDir } = settled.data;
  const config: Config = {
    ...settled.data,
    // Slots of a cluster are Pods unless a setting says otherwise.
    runtime: store === "kubernetes" && runtime === "auto" ? store : runtime,
    configDir,
    stateDir,
    secretsDir: secretsDir ?? (store === "kubernetes" ? `${configDir}/secrets` : undefined),
    modelsDir: settled.data.modelsDir ?? `${stateDir}/models`,
    host: settled.data.host ?? (settled.data.authEnabled ? "127.0.0.1" : "0.0.0.0"),
  };
  return { config, origins, problems, warnings };
}

/**
 * Whether slots may run as processes. Whoever may write Slots of a cluster would else run commands with the rights of the
 * operator's own service account.
 */
export function mayRunProcesses({ store, allowProcesses }: Pick<Config, "store" | "allowProcesses">): boolean {
  return store !== "kubernetes" || allowProcesses;
}

/** Messages of our schemas name the wanted value (`a whole number`); those of the schema library are sentences. */
function wanted(message: string): string {
  if (message.startsWith("must ")) return message;
  return isLibrarys(message) ? `is wrong: ${message[0]?.toLowerCase() ?? ""}${message.slice(1)}` : `must be ${message}`;
}

function hint(name: string, known: readonly string[]): string {
  return didYouMean(nearest(name, known));
}
