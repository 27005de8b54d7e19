import type { ApiClient } from "./client.ts";
import type { Collection } from "./list-pages.ts";
import type { KubeObject } from "./object.ts";

export interface ListWatchOptions extends Collection {
  readonly client: ApiClient;
  /** The names whose object appeared, changed or is gone. An exception is counted and reported. */
  readonly onChange: (names: readonly string[]) => void;
  /** The part of each object that stays in memory; absent: all of it. */
  readonly keep?: (value: KubeObject["value"]) => KubeObject["value"];
  /** Each failure; the list-watch goes on. */
  readonly onError?: (error: unknown) => void;
  /** An end without a watch after this long is suspicious; a test shortens it. */
  readonly watchSeconds?: number;
}

/** Counts since the start. */
export interface ListWatchCounts {
  readonly lists: number;
  readonly watches: number;
  readonly events: number;
  /** Events that said nothing new. */
  readonly stale: number;
  readonly errors: number;
  readonly handlerErrors: number;
}
