import type { Kind } from "../api/names.ts";

/** What a person asked the API to write; spec and labels as the resource's schema has them, camelCase. */
export interface ManifestChange {
  readonly spec: Readonly<Record<string, unknown>>;
  /** Undefined: labels stay as they are. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

/**
 * Writes manifests for a person (DESIGN decision 4): whole files atomically, edits that keep comments, order and
 * spelling. Every method rejects with ApiError `config.read_only` where nothing may be written, and
 * `config.invalid` where the result would not be valid; then nothing has changed.
 */
export interface ManifestWriter {
  /** Why nothing may be written; undefined: it may. */
  readOnlyReason(): Promise<string | undefined>;
  /** A new file. Rejects with `slot.already_exists` where the name is declared already. Answers with its path. */
  create(kind: Kind, name: string, change: ManifestChange): Promise<string>;
  /** Makes the declaration say exactly this, touching only what differs; creates it where there is none. */
  replace(kind: Kind, name: string, change: ManifestChange): Promise<"created" | "changed" | "unchanged">;
  /**
   * Sets one field of the spec, such as `["model", "default"]`. Rejects with `slot.not_found` where there is no file.
   */
  set(kind: Kind, name: string, path: readonly string[], value: string | number | boolean): Promise<void>;
  /** What the operator publishes as `spec_hash` once it has seen the declaration as it is now; undefined: none. */
  specHash(kind: Kind, name: string): Promise<string | undefined>;
  /**
   * Removes the file of a declaration, having recorded that it was asked for: the operator then believes it, be it the
   * last one. False when there was none; one that `isKnown`, in force although its file went, is recorded all the same.
   */
  remove(kind: Kind, name: string, options: { readonly isKnown: boolean }): Promise<boolean>;
}

/** What was written, and the hash that the operator publishes once it has seen that: of the same moment. */
export interface Written {
  readonly outcome: "created" | "changed" | "unchanged";
  readonly specHash: string | undefined;
}

/** A writer on another thread, where somebody else may write between two questions. */
export interface AsyncManifestWriter extends Omit<ManifestWriter, "create" | "replace"> {
  create(kind: Kind, name: string, change: ManifestChange): Promise<Written>;
  replace(kind: Kind, name: string, change: ManifestChange): Promise<Written>;
}
