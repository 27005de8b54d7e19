import type { ApiErrorOptions, ErrorCode } from "../../api/errors.ts";
import type { Kind } from "../../api/names.ts";
import type { Diagnostic } from "../store.ts";
import type { ManifestChange, Written } from "../writer.ts";

/** Whose manifests. */
export interface Where {
  readonly configDir: string;
  readonly stateDir: string;
  /** `read_only` of the settings. */
  readonly isReadOnly: boolean;
}

/** What the thread of manifests is asked, by name: what each takes and gives. */
export interface ManifestTasks {
  validateFiles: { takes: Readonly<Record<string, string>>; gives: readonly Diagnostic[] };
  validateDirectory: { takes: string; gives: readonly Diagnostic[] };
  readOnlyReason: { takes: Where; gives: string | undefined };
  create: { takes: Where & Named & { change: ManifestChange }; gives: Written };
  replace: { takes: Where & Named & { change: ManifestChange }; gives: Written };
  set: { takes: Where & Named & { path: readonly string[]; value: string | number | boolean }; gives: undefined };
  specHash: { takes: Where & Named; gives: string | undefined };
  remove: { takes: Where & Named & { isKnown: boolean }; gives: boolean };
}

interface Named {
  readonly kind: Kind;
  readonly name: string;
}

export type TaskName = keyof ManifestTasks;
export type Taken<K extends TaskName> = ManifestTasks[K]["takes"];
export type Given<K extends TaskName> = ManifestTasks[K]["gives"];

/** A question to the thread. */
export type Question = { [K in TaskName]: { readonly name: K; readonly input: Taken<K> } }[TaskName];

/** What is left of an error on its way between threads: a message of ours, or the file system's code. */
export type Failure =
  | { readonly kind: "api"; readonly code: ErrorCode; readonly options: Omit<ApiErrorOptions, "cause"> }
  | { readonly kind: "other"; readonly message: string; readonly stack?: string; readonly code?: string };

export type Answer<K extends TaskName = TaskName> = { readonly value: Given<K> } | { readonly failure: Failure };
