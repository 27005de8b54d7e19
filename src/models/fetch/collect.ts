import { rm } from "node:fs/promises";
import type { KeptFile, Leftover } from "../../api/model-task.ts";
import { errorMessage } from "../../lib/error-code.ts";
import type { BlobStore } from "./blob-store.ts";
import { readPartial } from "./partial-record.ts";

export interface Collection {
  readonly store: Pick<BlobStore, "leftovers" | "isUsed" | "root">;
  /** The sources of the pulls that are not over, looked up before each deletion. */
  readonly active: () => ReadonlySet<string>;
  /** Whether a model is being fetched: its contents have no ref yet. */
  readonly isFetching: () => boolean;
  readonly isDryRun: boolean;
  readonly signal: AbortSignal;
}

/**
 * Deletes what no ref needs: contents, directories and partial files, or only lists them. A pull that is paused or
 * waits for its next attempt keeps its partial files. Rejects as `signal` was aborted.
 */
export async function collect({ store, active, isFetching, isDryRun, signal }: Collection): Promise<{
  readonly leftovers: readonly Leftover[];
  readonly freedBytes: number;
  readonly kept: readonly KeptFile[];
}> {
  const leftovers: Leftover[] = [];
  const kept: KeptFile[] = [];
  let freedBytes = 0;
  for (const leftover of await store.leftovers(active())) {
    const { path, kind, sizeBytes } = leftover;
    signal.throwIfAborted();
    const source = kind === "partial" ? (await readPartial(path))?.content.source : undefined;
    // A pull may have begun and ended since the leftovers were listed: its ref has the content now.
    if (store.isUsed(path)) continue;
    const reason = reasonToKeep(leftover.kind, source, active(), isFetching());
    if (reason !== undefined) {
      kept.push({ path, reason });
      continue;
    }
    leftovers.push({ path, kind, sizeBytes, ...(source === undefined ? {} : { source }) });
    if (isDryRun) continue;
    try {
      await rm(path, { recursive: true, force: true });
      freedBytes += sizeBytes;
    } catch (error) {
      leftovers.pop();
      kept.push({ path, reason: errorMessage(error) });
    }
  }
  return { leftovers, freedBytes, kept };
}

/** The bytes of a ref's files that no other ref has. */
export function exclusiveBytes(store: Pick<BlobStore, "list" | "find">, ref: string): number {
  const others = store.list().filter((model) => model.ref !== ref);
  const shared = new Set(others.flatMap(({ files }) => files.map(({ sha256 }) => sha256)));
  const own = new Map((store.find(ref)?.files ?? []).map(({ sha256, sizeBytes }) => [sha256, sizeBytes]));
  return [...own].reduce((sum, [sha256, sizeBytes]) => sum + (shared.has(sha256) ? 0 : sizeBytes), 0);
}

/** A pull may have begun since the leftovers were listed. */
function reasonToKeep(
  kind: Leftover["kind"],
  source: string | undefined,
  active: ReadonlySet<string>,
  isFetching: boolean,
): string | undefined {
  if (source !== undefined && active.has(source)) return "a pull needs it";
  if (kind !== "partial" && isFetching) return "a model is being fetched, which may need it: try again afterwards";
  return undefined;
}
