import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Kind } from "../../../src/api/names.ts";
import { completeSlot, slotSpecSchema } from "../../../src/api/slot.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { openFileSource, type FileSourceOptions } from "../../../src/store/files/file-source.ts";
import type { DesiredSource } from "../../../src/store/store.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { published } from "../published-slot.ts";

export const directories = { Slot: "slots", Model: "models", Upstream: "upstreams", SlotGroup: "groups" } as const;

/** What is seen, however late, is seen by an event. */
export const noSweep = { sweepMs: 3_600_000 } as const;

/** A slot's manifest. */
export const toml = (model: string): string => `[model]\ndefault = "${model}"\n`;

/** A slot as an earlier operator has published it, of a directory that has moved since. */
export function seeded(name: string): PublishedSlot {
  const spec = completeSlot(name, slotSpecSchema.parse({ model: { default: "seeded" } }));
  return { ...published(name), file: `/moved/config/slots/${name}.toml`, spec };
}

export type Files = Readonly<Record<string, string>>;

/** Makes a configuration directory with these files. */
export async function directoryWith(files: Files): Promise<AsyncDisposable & { readonly path: string }> {
  const directory = await tempDir();
  for (const name of Object.values(directories)) mkdirSync(join(directory.path, name));
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory.path, file)), { recursive: true });
    writeFileSync(join(directory.path, file), text, { mode: 0o644 });
  }
  return directory;
}

/** A configuration directory, and its source. */
export interface Site extends AsyncDisposable {
  readonly dir: string;
  readonly source: DesiredSource;
  at(path: string): string;
  /** The model of the slot in force. */
  readonly model: (slot: string) => string | undefined;
  /** Waits until the slot has that model. */
  has(slot: string, model: string): Promise<void>;
  readonly names: () => readonly string[];
  /** The reasons of the problems that belong to no resource. */
  readonly reasons: () => readonly string[];
  /** Why the resource's manifest is refused, with the site's directory as DIR. */
  refusal(kind: Kind, name: string): string | undefined;
  /** Lets the clock of the source go on, where `isStopped`, and looks. */
  pass(ms: number): Promise<void>;
}

interface SiteOptions extends Partial<FileSourceOptions> {
  readonly prepare?: (dir: string) => Promise<void>;
  /** The clock of the source stands still but for `pass`. */
  readonly isStopped?: boolean;
}

export async function site(files: Files, { prepare, isStopped = false, ...options }: SiteOptions = {}): Promise<Site> {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await directoryWith(files));
  await prepare?.(dir);
  let nowMs = 1_000_000;
  const clock = isStopped ? { now: () => new Date(nowMs) } : {};
  const source = stack.use(await openFileSource({ configDir: dir, ...clock, ...options }));
  const owned = stack.move();
  const model = (slot: string): string | undefined => source.get("Slot", slot)?.spec?.model.default;
  return {
    dir,
    source,
    at: (path) => join(dir, path),
    model,
    has: async (slot, wanted) => void (await until(`${slot} has ${wanted}`, () => model(slot) === wanted)),
    names: () =>
      source
        .list("Slot")
        .map(({ name }) => name)
        .toSorted(),
    reasons: () => source.problems().map(({ reason }) => reason),
    refusal(kind, name) {
      const [found] = source.get(kind, name)?.diagnostics ?? [];
      return found === undefined ? undefined : `${found.reason}: ${found.message.replaceAll(dir, "DIR")}`;
    },
    async pass(ms) {
      nowMs += ms;
      await source.resync();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
