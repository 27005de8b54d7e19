import { z } from "zod";
import { processRoles, type RuntimeKind } from "./names.ts";
import type { ProcessRef } from "./process-ref.ts";

/**
 * One engine process, ready to be started by a runtime: an adapter makes it from a slot. `$(NAME)` has been expanded
 * and secrets are still references; nothing here depends on the clock.
 */
export interface Workload extends ProcessRef {
  readonly slot: string;
  /** Hash of everything whose change must restart this engine (DECISIONS 2). */
  readonly hash: string;
  readonly runtime: RuntimeKind;
  /** Program and arguments; for containers it replaces the entrypoint only when `replacesEntrypoint`. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, EnvValue>>;
  /** The variable by which the engine takes its bearer: a new bearer per start, unless `env` sets it. */
  readonly bearer?: { readonly env: string };
  readonly workingDir: string | undefined;
  /** The port on which it is reached: of this host, or, where it has an address of its own, the engine's own. */
  readonly port: number;
  readonly stopSeconds: number;
  /**
   * The directory of this machine in which this engine alone saves the context of its prompts, and the engine's own
   * path to it, which is in its command. Absent: nowhere.
   */
  readonly contextPlace?: { readonly source: string; readonly target: string };
  /** The parts that only a container needs; present exactly when the runtime is not `process`. */
  readonly container?: Container;
}

/** How a runtime's engines are reached. */
export interface Addressing {
  /** The address that the engine itself listens on. */
  readonly listenHost: string;
  /** The engine listens on its own port inside a network of its own, whatever port of the host leads there. */
  readonly hasOwnNetwork: boolean;
  /** A port of this host is leased for each process. Else each has an address of its own and is reached on its own port. */
  readonly needsHostPort: boolean;
}

/** The rights and resources of an engine's container. The container has no right that is not named here. */
export interface Container {
  /** A reference with a tag, or with `@sha256:…`, which takes precedence. */
  readonly image: string;
  readonly replacesEntrypoint: boolean;
  /** The port of the engine inside the container. */
  readonly port: number;
  readonly mounts: readonly { readonly source: string; readonly target: string; readonly readOnly: boolean }[];
  /** Files of the host that the engine reads, mounted at their own paths, also targets of links. */
  readonly modelFiles: readonly string[];
  /** Device nodes; every one must exist on the host. */
  readonly devices: readonly string[];
  /** NVIDIA GPUs: how many, or all. */
  readonly gpus?: number | "all";
  /** No limit on locked memory: the NPU driver pins its buffers. */
  readonly isMemlockUnlimited: boolean;
  /** The image's own files cannot be written; `/tmp` is memory. */
  readonly isRootReadOnly: boolean;
  /** A tiny init as first process: without it, a program without a handler for TERM ignores TERM. */
  readonly hasInit: boolean;
  /** Linux capabilities that are kept, without the CAP_ prefix; all others are dropped. */
  readonly capabilities: readonly string[];
  readonly shmSizeBytes?: number;
  readonly memoryBytes?: number;
  readonly cpus?: number;
  /** Present exactly when the runtime makes Pods. */
  readonly pod?: PodNeeds;
}

/** The needs of an engine that only a Pod can have. */
export interface PodNeeds {
  readonly backend: string;
  /** Extended resources of device plugins, by name, beside those that `gpus` asks for. */
  readonly extended: Readonly<Record<string, number>>;
  /** ResourceClaims of the namespace (dynamic resource allocation). */
  readonly claims: readonly PodClaim[];
  /** Memory that the engine is known to need of its machine; absent: not known. */
  readonly memoryBytes?: number;
  /** The manifest's `podTemplate`, merged over the generated Pod. */
  readonly template?: unknown;
}

export interface PodClaim {
  readonly name: string;
  readonly resourceClaimName?: string | undefined;
  readonly resourceClaimTemplateName?: string | undefined;
  readonly request?: string | undefined;
}

export interface SecretKeyRef {
  readonly name: string;
  readonly key: string;
}

/** A text, or a secret by its place: keys of Secrets are for Pods alone. */
export type EnvValue = string | { readonly file: string } | { readonly secretKeyRef: SecretKeyRef };

/** One process or container as its runtime observes it; re-read at every reconcile, never remembered as truth. */
export interface Observed extends ProcessRef {
  readonly slot: string;
  readonly hash: string;
  /** Where it is reached. */
  readonly host: string;
  readonly port: number;
  readonly phase: "running" | "exited";
  /** True once a listening socket on the port belongs to this process group or container. */
  readonly isListening: boolean;
  /** Another program listens on the engine's port. */
  readonly isPortTaken: boolean;
  readonly startedAt: Date;
  /** The bearer that it requires of its clients; a secret. Absent: none. */
  readonly bearer?: string;
  /** Somebody paused its container; `ensure` resumes it, without a restart. */
  readonly drift?: { readonly reason: "Paused"; readonly message: string };
  readonly id: { readonly pid: number } | { readonly containerId: string } | { readonly podName: string };
  /** Only when exited. `unknown` when an adopted process went away unseen. */
  readonly exit?: Exit | PodExit;
  /** The runtime was asked for the process, and the program has not begun yet. */
  readonly pending?: Pending;
  /** The digest of its image, as its machine fetched it; absent: not known. */
  readonly imageDigest?: string;
  /** When its program began, where that is later than `startedAt`: its image may have been fetched in between. */
  readonly begunAt?: Date;
}

/** Why an engine that was asked for has not begun. */
export interface Pending {
  readonly reason: string;
  /** For people: what is awaited, and what to do about it. */
  readonly message: string;
  /** Something outside must change, and then it comes; else it comes by itself. */
  readonly isStuck: boolean;
}

/** A bearer that fits in a header, and in one variable of an environment. */
export const bearerSchema = z.string().regex(/^[\x21-\x7E]{1,4096}$/);

export const exitSchema = z.strictObject({
  reason: z.enum(["Exited", "Signalled", "OOMKilled", "StartFailed", "PortInUse", "Unknown"]),
  code: z.int().optional(),
  signal: z.string().optional(),
  message: z.string(),
  at: z.iso.datetime(),
});
export type Exit = z.infer<typeof exitSchema>;

/** Ends that only a cluster knows; never written into a process record. */
export interface PodExit extends Omit<Exit, "reason"> {
  readonly reason:
    | "ImageNotFound"
    | "Unauthorized"
    | "WrongPlatform"
    | "PullFailed"
    | "NoSecret"
    | "Evicted"
    | "Preempted"
    | "NodeLost"
    | "NotAdmitted"
    | "PodDeleted";
}

/** Where engines of this host are reached, and what published state that names no host means: versions without one. */
export const loopbackHost = "127.0.0.1";

const ordinalSchema = z.int().min(0);

export const processStatusSchema = z.strictObject({
  role: z.enum(processRoles),
  /** Which replica of that role. */
  ordinal: ordinalSchema.default(0),
  host: z.string().default(loopbackHost),
  port: z.int(),
  endpoint: z.string(),
  pid: z.int().optional(),
  containerId: z.string().optional(),
  podName: z.string().optional(),
  /** True while the engine answers its probe: the gateway may send to it. */
  isReady: z.boolean(),
  startedAt: z.iso.datetime().optional(),
  /** Since when gateways are to send nothing more to this process while the slot goes on serving. */
  drainingSince: z.iso.datetime().optional(),
});

export type ProcessStatus = z.infer<typeof processStatusSchema>;

/** The bearer token that one process requires of its clients. */
export const processBearerSchema = z.strictObject({
  role: z.enum(processRoles),
  ordinal: ordinalSchema,
  bearer: bearerSchema,
});

/** The requests of one gateway at one process. */
export const processDemandSchema = z.strictObject({
  role: z.enum(processRoles),
  ordinal: ordinalSchema,
  inFlight: z.int().min(0),
  /** When a byte last came from this process while requests were in flight. */
  lastByteAt: z.iso.datetime().optional(),
});
