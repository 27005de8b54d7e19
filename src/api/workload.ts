import { z } from "zod";
import { processRoles, type ProcessRole } from "./names.ts";

/**
 * One engine process, ready to be started by a runtime: what an adapter makes of a slot.
 * `$(NAME)` has been expanded and secrets are still references; nothing here depends on the clock.
 */
export interface Workload {
  readonly slot: string;
  readonly role: ProcessRole;
  /** Hash of everything whose change must restart this engine (DECISIONS 2). */
  readonly hash: string;
  /** Program and arguments; for containers it replaces the entrypoint only when `replacesEntrypoint`. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, EnvValue>>;
  readonly workingDir: string | undefined;
  readonly host: string;
  /** Port on the host, 8081-8099. */
  readonly port: number;
  readonly stopSeconds: number;
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
  readonly id: { readonly pid: number } | { readonly containerId: string } | { readonly podName: string };
  /** Only when exited. `unknown` when an adopted process went away unseen. */
  readonly exit?: Exit;
}

export const exitSchema = z.strictObject({
  reason: z.enum(["Exited", "Signalled", "OOMKilled", "StartFailed", "Unknown"]),
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
