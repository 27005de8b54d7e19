import { z } from "zod";
import { processRoles, type ProcessRole, type RuntimeKind } from "./names.ts";

/**
 * One engine process, ready to be started by a runtime: what an adapter makes of a slot.
 * `$(NAME)` has been expanded and secrets are still references; nothing here depends on the clock.
 */
export interface Workload {
  readonly slot: string;
  readonly role: ProcessRole;
  /** Hash of everything whose change must restart this engine (DECISIONS 2). */
  readonly hash: string;
  readonly runtime: RuntimeKind;
  /** Program and arguments; for containers it replaces the entrypoint only when `replacesEntrypoint`. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, EnvValue>>;
  /** The variable by which the engine takes a bearer of its own: another one at every start, unless `env` has it. */
  readonly bearer?: { readonly env: string };
  readonly workingDir: string | undefined;
  readonly host: string;
  /** Port on the host, 8081-8099. */
  readonly port: number;
  readonly stopSeconds: number;
  /** What only a container needs; present exactly when the runtime is not `process`. */
  readonly container?: Container;
}

/** What an engine needs of its container. Everything not named here is taken away from it. */
export interface Container {
  /** A reference with a tag, or with `@sha256:…`, which wins. */
  readonly image: string;
  readonly replacesEntrypoint: boolean;
  /** The port that the engine listens on inside. */
  readonly port: number;
  readonly mounts: readonly { readonly source: string; readonly target: string; readonly readOnly: boolean }[];
  /** Files of the host that the engine reads, mounted at their own paths, also where links lead. */
  readonly modelFiles: readonly string[];
  /** Device nodes; every one must exist on the host. */
  readonly devices: readonly string[];
  /** NVIDIA GPUs: how many, or all. */
  readonly gpus?: number | "all";
  /** No limit on locked memory: the NPU driver pins its buffers. */
  readonly isMemlockUnlimited: boolean;
  /** The image's own files cannot be written; `/tmp` is memory. */
  readonly isRootReadOnly: boolean;
  /** A tiny init as first process: without one, a program that does not handle TERM ignores it. */
  readonly hasInit: boolean;
  /** Linux capabilities beyond none, without the CAP_ prefix. */
  readonly capabilities: readonly string[];
  readonly shmSizeBytes?: number;
  readonly memoryBytes?: number;
  readonly cpus?: number;
}
export type EnvValue = string | { readonly file: string };

/** What a runtime sees of one process or container; re-read at every reconcile, never remembered as truth. */
export interface Observed {
  readonly slot: string;
  readonly role: ProcessRole;
  readonly hash: string;
  readonly port: number;
  readonly phase: "running" | "exited";
  /** True once a listening socket on the port belongs to this process group or container. */
  readonly isListening: boolean;
  /** Somebody else listens on our port. */
  readonly isPortTaken: boolean;
  readonly startedAt: Date;
  /** What it wants of whoever asks it; a secret. Absent: it asks for nothing. */
  readonly bearer?: string;
  /** Something about it is no longer as it was made; `ensure` puts it right without a restart. */
  readonly drift?: { readonly reason: "Paused" | "Renamed"; readonly message: string };
  readonly id: { readonly pid: number } | { readonly containerId: string } | { readonly podName: string };
  /** Only when exited. `unknown` when an adopted process went away unseen. */
  readonly exit?: Exit;
}

/** A bearer as a header can carry it, and one variable of an environment. */
export const bearerSchema = z.string().regex(/^[\x21-\x7E]{1,4096}$/);

export const exitSchema = z.strictObject({
  reason: z.enum(["Exited", "Signalled", "OOMKilled", "StartFailed", "PortInUse", "Unknown"]),
  code: z.int().optional(),
  signal: z.string().optional(),
  message: z.string(),
  at: z.iso.datetime(),
});
export type Exit = z.infer<typeof exitSchema>;

export const processStatusSchema = z.strictObject({
  role: z.enum(processRoles),
  port: z.int(),
  endpoint: z.string(),
  pid: z.int().optional(),
  containerId: z.string().optional(),
  podName: z.string().optional(),
  /** True while the engine answers its probe: what the gateway may send to. */
  isReady: z.boolean(),
  startedAt: z.iso.datetime().optional(),
});
