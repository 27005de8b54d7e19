import { createHash, randomUUID } from "node:crypto";
import { existsSync, rmSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Kind } from "../../api/names.ts";
import { removalSchema, type Removal } from "../../api/status.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { readPlainJson } from "../../lib/small-file.ts";
import { JsonDirectory } from "../../lib/json-directory.ts";

const directoryOf = (stateDir: string): string => join(stateDir, "requests", "removals");
/** A name may hold every character of a file's name. */
const fileNameOf = ({ kind, name }: Pick<Removal, "kind" | "name">): string =>
  createHash("sha256").update(`${kind}/${name}`).digest("hex").slice(0, 32);

/** Records requested removals before they are executed. */
export interface RemovalRecorder {
  /** Whether a removal is recorded that the operator has not finished. */
  has(kind: Kind, name: string): boolean;
  /** Survives a power cut once resolved. */
  put(kind: Kind, name: string): Promise<void>;
  /** The resource was not removed, or is declared again. */
  withdraw(kind: Kind, name: string): Promise<void>;
}

/** The API's side. */
export function removalRecorder(stateDir: string): RemovalRecorder {
  const path = directoryOf(stateDir);
  const fileOf = (kind: Kind, name: string): string => join(path, `${fileNameOf({ kind, name })}.json`);
  return {
    has: (kind, name) => existsSync(fileOf(kind, name)),
    async put(kind, name) {
      await mkdir(path, { recursive: true });
      const removal = { schema: 1, kind, name, token: randomUUID(), requestedAt: new Date().toISOString() };
      await writeFileAtomic(fileOf(kind, name), JSON.stringify(removalSchema.parse(removal)), { fsync: true });
    },
    withdraw: async (kind, name) => await rm(fileOf(kind, name), { force: true }),
  };
}

/** The operator's side: requested removals whose resource still exists. */
export interface Removals extends AsyncDisposable {
  list(): readonly Removal[];
  /** Scans now: earlier records are listed after it. */
  scan(): Promise<void>;
  /** Removes a request that is done, or void; a request that came since stays. */
  forget(removal: Removal): void;
  watch(onChange: () => void): void;
}

export async function openRemovals(stateDir: string): Promise<Removals> {
  const path = directoryOf(stateDir);
  let notify = (): void => undefined;
  const directory = await JsonDirectory.open<Removal>(path, {
    parse: (value) => removalSchema.safeParse(value).data,
    onChange: () => notify(),
    // A read of the manifests scans again whenever one of them is missing.
    sweepMs: 10_000,
  });
  return {
    list: () => [...directory.values()].map(([, removal]) => removal),
    scan: () => directory.scan(),
    forget(removal) {
      const file = join(path, `${fileNameOf(removal)}.json`);
      // In one turn: a record of the API at any other moment stays.
      if (removalSchema.safeParse(readPlainJson(file)).data?.token === removal.token) rmSync(file, { force: true });
    },
    watch: (onChange) => {
      notify = onChange;
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}
