import type { ModelRecord } from "../api/model.ts";
import type { ProcessRole } from "../api/names.ts";
import type { Workload } from "../api/workload.ts";
import type { ContainerNeeds } from "./container.ts";

/** How one engine process is started, before the manifest's overrides. */
export interface Launch {
  readonly role: ProcessRole;
  /** The engine's own program and arguments; a manifest's `command` replaces it. */
  readonly command: readonly string[];
  /** The part of the launch line whose change must restart the engine; not the port or derived values. */
  readonly identity: unknown;
  readonly ref: string;
  readonly model: ModelRecord | undefined;
  /** The engine's own environment; the manifest's `env` takes precedence. */
  readonly env?: Readonly<Record<string, string>>;
  /** The variable by which the engine takes a bearer, if it supports one. */
  readonly bearer?: string;
  readonly port: number;
  readonly container: ContainerNeeds;
  /** Where the engine saves the context of its prompts. */
  readonly contextPlace?: Workload["contextPlace"];
  /** How an image takes its command; not for a manifest's own command. */
  readonly join?: (words: readonly string[]) => readonly string[];
}
