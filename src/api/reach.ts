import { modelRefSchema } from "./names.ts";
import type { SlotSpec } from "./slot.ts";

/**
 * The power of a field's value over the machine. `data`: it stays within Berth and its protocols, or is a choice, a
 * number, a name. `code`: it is run, is an argument, or names a file that an engine may open. `refOrPath`: the ref of a
 * model is data, any other path is a file of the machine. `codeByKey`: a map whose every value is code. `place`: it
 * decides where the slot's code runs, in a container or on the machine itself; data in a slot without code.
 */
type Reach = "data" | "code" | "refOrPath" | "codeByKey" | "place";

/** A map of known fields declares the reach of each: a new field without a declaration is a type error. */
type ReachOf<T> = T extends readonly unknown[]
  ? Reach
  : T extends object
    ? string extends keyof T
      ? Reach
      : { readonly [K in keyof T]-?: ReachOf<NonNullable<T[K]>> }
    : Reach;

/** The reach of every field of a Slot. */
export const slotReach = {
  enabled: "data",
  engine: "data",
  backend: "data",
  runtime: "place",
  program: "place",
  model: {
    default: "data",
    contextSize: "data",
    gpuLayers: "data",
    spill: "data",
    parallel: "data",
    threads: "data",
    promptCacheBytes: "data",
    keepContext: { maxBytes: "data", maxAgeSeconds: "data" },
    projector: "refOrPath",
    rerank: "data",
    onRequest: "data",
    maxWaitSeconds: "data",
    minResidencySeconds: "data",
  },
  capabilities: "data",
  replicas: "data",
  load: "data",
  idleSeconds: "data",
  image: "code",
  imageDigest: "code",
  command: "code",
  args: "code",
  env: "codeByKey",
  workingDir: "code",
  mounts: "code",
  devices: "code",
  shmSizeBytes: "data",
  port: "data",
  probe: {
    path: "data",
    startupSeconds: "data",
    intervalSeconds: "data",
    timeoutSeconds: "data",
    failures: "data",
    hungSeconds: "data",
  },
  stopSeconds: "data",
  concurrency: { max: "data", queue: "data" },
  timeoutSeconds: { firstByte: "data", idle: "data" },
  resources: { memoryBytes: "data", cpus: "data", gpus: "data", extended: "data", claims: "data" },
  aliases: "data",
  request: { set: "data", strip: "data" },
  group: "data",
  priority: "data",
  pinned: "data",
  podTemplate: "code",
} as const satisfies ReachOf<SlotSpec>;

interface ReachMap {
  readonly [field: string]: Reach | ReachMap;
}

/** One value that reaches the machine, and its path. */
export interface Reaching {
  readonly path: readonly string[];
  readonly value: unknown;
  /**
   * Removing the value does no harm, as with a variable of `env`; removing a program leaves another one in its place.
   */
  readonly mayGo: boolean;
}

/** The values of a slot's spec, or of a part of it, that run code or name files, and the place of a slot with any. */
export function reaching(spec: Readonly<Record<string, unknown>>): Reaching[] {
  const found = valuesIn(spec, slotReach, []);
  if (found.length === 0) return [];
  const places = ["runtime", "program"].map((field) => ({ path: [field], value: spec[field] ?? "auto", mayGo: true }));
  return [...found, ...places];
}

function valuesIn(value: unknown, reach: ReachMap, base: readonly string[]): Reaching[] {
  return entriesOf(value).flatMap(([key, inner]) => valueAt(inner, reach[key] ?? "data", [...base, key]));
}

function valueAt(value: unknown, reach: Reach | ReachMap, path: readonly string[]): Reaching[] {
  if (typeof reach === "object") return valuesIn(value, reach, path);
  switch (reach) {
    case "data":
    case "place":
      return [];
    case "code":
      return isEmpty(value) ? [] : [{ path, value, mayGo: false }];
    case "refOrPath":
      return isPlainRef(value) ? [] : [{ path, value, mayGo: false }];
    case "codeByKey":
      return entriesOf(value).map(([key, inner]) => ({ path: [...path, key], value: inner, mayGo: true }));
    default:
      return reach satisfies never;
  }
}

/** The default of a list. */
function isEmpty(value: unknown): boolean {
  return value === undefined || (Array.isArray(value) && value.length === 0);
}

/** A ref may hold slashes and dots; a text with `..` segments is a path. */
function isPlainRef(value: unknown): boolean {
  return modelRefSchema.safeParse(value).success && !String(value).split("/").includes("..");
}

function entriesOf(value: unknown): [string, unknown][] {
  return typeof value === "object" && value !== null ? Object.entries(value) : [];
}
