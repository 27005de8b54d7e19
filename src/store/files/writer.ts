import type { Kind } from "../../api/names.ts";

/** A person's change over the API; spec and labels as the resource's schema has them, camelCase. */
export interface ManifestChange {
  readonly spec: Readonly<Record<string, unknown>>;
  /** Undefined: labels stay unchanged. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** Of `replace`: the hash of the declaration that the change was judged against. Absent: any, or none. */
  readonly over?: string;
}

/** The text that declares a resource; `hash` is of this text. */
export interface ManifestSource {
  /** Relative to the configuration directory. */
  readonly file: string;
  readonly text: string;
  readonly hash: string;
  /** The spec that is declared there: complete where it is valid, else its own fields. */
  readonly spec: Readonly<Record<string, unknown>>;
}

/** The written declaration, and the hash that the operator publishes once it has read it: both of the same moment. */
export interface Written {
  readonly outcome: "created" | "changed" | "unchanged";
  readonly specHash: string | undefined;
}

/**
 * Writes manifests for a person (rule 4 of docs/architecture.md): whole files atomically, edits that keep comments, order and
 * spelling. Every method rejects with ApiError `config.read_only` where nothing may be written, and `config.invalid`
 * where the result would be invalid; then nothing has changed.
 */
export interface ManifestWriter {
  /** Why nothing may be written; undefined: writing is allowed. */
  readOnlyReason(): Promise<string | undefined>;
  /** A new file. Rejects with `slot.already_exists` where the name is declared already. */
  create(kind: Kind, name: string, change: ManifestChange): Promise<Written>;
  /**
   * Gives the declaration exactly this content, changing only what differs; creates a missing one. Rejects with
   * `config.changed` where the present declaration is another than `change.over`.
   */
  replace(kind: Kind, name: string, change: ManifestChange): Promise<Written>;
  /** Sets one field of the spec, such as `["model", "default"]`. Rejects with `slot.not_found` without a file. */
  set(kind: Kind, name: string, path: readonly string[], value: string | number | boolean): Promise<void>;
  /** The `spec_hash` that the operator publishes once it has read the present declaration; undefined: none. */
  specHash(kind: Kind, name: string): Promise<string | undefined>;
  /** The present file; undefined without a declaration. */
  source(kind: Kind, name: string): Promise<ManifestSource | undefined>;
  /**
   * The spec that a text for the file would declare. Rejects with `config.invalid`, also for a text that declares
   * anything else: what may be written is decided by the one spec.
   */
  specOf(kind: Kind, name: string, text: string): Promise<Readonly<Record<string, unknown>>>;
  /**
   * Gives the file a text of `specOf`. Rejects with `config.changed` where its present text has another hash: somebody
   * has written it meanwhile, and that must not be lost.
   */
  writeSource(kind: Kind, name: string, change: Pick<ManifestSource, "text" | "hash">): Promise<void>;
  /**
   * Removes the file of a declaration after recording the request: the operator then accepts the removal, also of the
   * last file. With `isKnown`, for a declaration in force although its file is gone, the request is recorded all the
   * same. False where nothing was left to request: there is no declaration, or its removal is requested already.
   */
  remove(kind: Kind, name: string, options: { readonly isKnown: boolean }): Promise<boolean>;
}
