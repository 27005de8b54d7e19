import { modelRefSchema } from "./names.ts";
import type { SlotSpec } from "./slot.ts";

/**
 * What the value of a field can do with the machine. `data`: it stays within Berth and its protocols, or is a choice, a
 * number, a name. `code`: it is run, is an argument, or names what an engine may open. `refOrPath`: the ref of a model is
 * data, whatever else is a file of the machine. `codeByKey`: a map whose every value is code.
 */
type Reach = "data" | "code" | "refOrPath" | "codeByKey";

/** A map of known fields says it of every one: a new field without a word here is an error of types. */
type ReachOf<T> = T extends readonly unknown[]
  ? Reach
  : T extends object
    ? string extends keyof T
      ? Reach
      : { readonly [K in keyof T]-?: ReachOf<NonNullable<T[K]>> }
    : Reach;

/** Of every field of a Slot. */
export const slotReach = {
  enabled: "data",
  engine: "data",
  backend: "data",
  runtime: "data",
  model: {
    default: "data",
    contextSize: "data",
    gpuLayers: "data",
    spill: "data",
    parallel: "data",
    threads: "data",
    promptCacheBytes: "data",
    projector: "refOrPath",
    rerank: "data",
    onRequest: "data",
  },
  capabilities: "data",
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
  resources: { memoryBytes: "data", cpus: "data", gpus: "data" },
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

/** One value that reaches the machine, and where it stands. */
export interface Reaching {
  readonly path: readonly string[];
  readonly value: unknown;
  /** A variable of `env`, say, that may go without harm; a program that goes leaves another one in its place. */
  readonly mayGo: boolean;
}

/** The values of a slot's spec, or of a part of one, that run code or name files. */
export function reaching(spec: Readonly<Record<string, unknown>>): Reaching[] {
  return valuesIn(spec, slotReach, []);
}

function valuesIn(value: unknown, reach: ReachMap, base: readonly string[]): Reaching[] {
  return entriesOf(value).flatMap(([key, inner]) => valueAt(inner, reach[key] ?? "data", [...base, key]));
}

function valueAt(value: unknown, reach: Reach | ReachMap, path: readonly string[]): Reaching[] {
  if (typeof reach === "object") return valuesIn(value, reach, path);
  switch (reach) {
    case "data":
      return [];
    case "code":
      return [{ path, value, mayGo: false }];
    case "refOrPath":
      return isPlainRef(value) ? [] : [{ path, value, mayGo: false }];
    case "codeByKey":
      return entriesOf(value).map(([key, inner]) => ({ path: [...path, key], value: inner, mayGo: true }));
    default:
      return reach satisfies never;
  }
}

/** A ref may hold slashes and dots; one that climbs is a path. */
function isPlainRef(value: unknown): boolean {
  return modelRefSchema.safeParse(value).success && !String(value).split("/").includes("..");
}

function entriesOf(value: unknown): [string, unknown][] {
  return typeof value === "object" && value !== null ? Object.entries(value) : [];
}
