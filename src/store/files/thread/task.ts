import type { Kind } from "../../../api/names.ts";
import type { Diagnostic } from "../../store.ts";
import type { Failure } from "../../thread-failure.ts";
import type { DeclaredSlot } from "../declared-slots.ts";
import type { ManifestChange, ManifestSource, Written } from "../writer.ts";

/** The configuration directory. */
export interface Where {
  readonly configDir: string;
  readonly stateDir: string;
  /** `read_only` of the settings. */
  readonly isReadOnly: boolean;
}

/** The tasks of the thread, by name, with input and output. */
export interface ManifestTasks {
  validateFiles: { takes: Readonly<Record<string, string>>; gives: readonly Diagnostic[] };
  validateDirectory: { takes: string; gives: readonly Diagnostic[] };
  /** The slots of texts, or of a configuration directory. */
  slotsIn: { takes: Readonly<Record<string, string>> | string; gives: readonly DeclaredSlot[] };
  readOnlyReason: { takes: Where; gives: string | undefined };
  create: { takes: Where & Named & { change: ManifestChange }; gives: Written };
  replace: { takes: Where & Named & { change: ManifestChange }; gives: Written };
  set: { takes: Where & Named & { path: readonly string[]; value: string | number | boolean }; gives: undefined };
  specHash: { takes: Where & Named; gives: string | undefined };
  source: { takes: Where & Named; gives: ManifestSource | undefined };
  specOf: { takes: Where & Named & { text: string }; gives: Readonly<Record<string, unknown>> };
  writeSource: { takes: Where & Named & { change: Pick<ManifestSource, "text" | "hash"> }; gives: undefined };
  remove: { takes: Where & Named & { isKnown: boolean }; gives: boolean };
}

interface Named {
  readonly kind: Kind;
  readonly name: string;
}

export type TaskName = keyof ManifestTasks;
export type Taken<K extends TaskName> = ManifestTasks[K]["takes"];
export type Given<K extends TaskName> = ManifestTasks[K]["gives"];

/** A message to the thread. */
export type Question = { [K in TaskName]: { readonly name: K; readonly input: Taken<K> } }[TaskName];

export type Answer<K extends TaskName = TaskName> = { readonly value: Given<K> } | { readonly failure: Failure };
